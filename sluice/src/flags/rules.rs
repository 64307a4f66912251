//! Rules that concern several flags (the start-up rules of ingress-nginx that need no cluster).

use sluice_config::LocationDatabase;

use super::error::FlagError;
use super::settings::ServeFlags;

/// Pairs of flags that exclude each other.
pub(super) const EXCLUSIVE: [(&str, &str); 5] = [
    ("publish-service", "publish-status-address"),
    ("watch-namespace", "watch-namespace-selector"),
    ("manifests", "kubeconfig"),
    ("manifests", "apiserver-host"),
    ("manifests", "snapshot-file"),
];

/// The ports of the program's own listeners, each with its flag.
pub(super) fn ports(flags: &ServeFlags) -> [(&'static str, u16); 6] {
    [
        ("http-port", flags.controller.http_port),
        ("https-port", flags.controller.https_port),
        ("healthz-port", flags.gateway.healthz_port),
        ("admin-address", flags.gateway.admin_address.port()),
        ("replica-address", flags.controller.replica_address.map_or(0, |address| address.port())),
        ("validating-webhook", flags.webhook.address.map_or(0, |address| address.port())),
    ]
}

/// Checks the relations between the values of different flags.
pub(super) fn check(flags: &ServeFlags) -> Result<(), FlagError> {
    let gateway = &flags.gateway;
    if gateway.metrics_per_undefined_host && !gateway.metrics_per_host {
        return Err(FlagError::Needs { flag: "metrics-per-undefined-host", other: "metrics-per-host" });
    }
    // As in ingress-nginx, which does not start either.
    let is_unknown = |edition: &&String| LocationDatabase::of_edition(edition).is_none();
    if let Some(unknown) = flags.geoip.editions.iter().find(is_unknown) {
        let (value, expected) = (unknown.clone(), "editions such as GeoLite2-Country,GeoLite2-ASN");
        return Err(FlagError::Value { flag: "maxmind-edition-ids", value, expected });
    }
    if let Some(agent) = flags.controller.waf_agent
        && (agent.ip().is_unspecified() || agent.port() == 0)
    {
        let (value, expected) = (agent.to_string(), "the address of the agent, such as 127.0.0.1:9913");
        return Err(FlagError::Value { flag: "waf-agent", value, expected });
    }
    let webhook = &flags.webhook;
    if webhook.address.is_some() {
        for (file, other) in [
            (&webhook.certificate, "validating-webhook-certificate"),
            (&webhook.key, "validating-webhook-key"),
        ] {
            if file.is_none() {
                return Err(FlagError::Needs { flag: "validating-webhook", other });
            }
        }
    }
    let ports = ports(flags);
    for (index, (one, port)) in ports.iter().enumerate() {
        // Port 0 selects any free port, so two of them never collide.
        if let Some((other, _)) = ports[..index].iter().find(|(_, taken)| taken == port && *port != 0) {
            return Err(FlagError::SamePort { port: *port, one: other, other: one });
        }
    }
    Ok(())
}
