//! `ssl_expire_time_seconds` and `ssl_certificate_info`. Computed at each scrape from the current
//! configuration, so no series outlives its host or certificate.

use prometheus::core::Collector;
use prometheus::proto::MetricFamily;
use prometheus::{IntGaugeVec, Opts};
use sluice_config::Certificate;

use super::options::TelemetryOptions;

/// A host and its certificate.
#[derive(Clone, Copy, Debug)]
pub struct HostCertificate<'a> {
    /// The host as written in the Ingress.
    pub host: &'a str,
    /// The certificate of the host.
    pub certificate: &'a Certificate,
}

pub(super) fn families<'a>(
    options: &TelemetryOptions,
    served: impl Iterator<Item = HostCertificate<'a>>,
) -> Result<Vec<MetricFamily>, prometheus::Error> {
    let opts = |name: &str, help: &str| -> Opts { super::reference_opts(options, name, help) };
    let common = ["namespace", "class", "host", "secret_name", "identifier"];
    let facts = [
        &common[..],
        &["issuer_organization", "issuer_common_name", "serial_number", "public_key_algorithm"],
    ]
    .concat();
    let expiry = IntGaugeVec::new(
        opts("ssl_expire_time_seconds", "When the host's certificate expires, Unix seconds."),
        &common,
    )?;
    let info = IntGaugeVec::new(
        opts(
            "ssl_certificate_info",
            "Details of the host's certificate; always \
                                                              1.",
        ),
        &facts,
    )?;
    for HostCertificate { host, certificate } in served {
        let facts = &certificate.facts;
        let issuer = facts.issuer_common_name.as_deref().unwrap_or_default();
        let identifier = format!("{issuer}-{}", facts.serial_number);
        let id = &certificate.id;
        let values = [&*id.namespace, &options.controller_class, host, &*id.name, &identifier];
        expiry.with_label_values(&values).set(facts.not_after);
        let organization = facts.issuer_organization.as_deref().unwrap_or_default();
        let more = [organization, issuer, &facts.serial_number, &facts.public_key_algorithm];
        info.with_label_values(&[&values[..], &more].concat()).set(1);
    }
    let mut all = expiry.collect();
    all.extend(info.collect());
    Ok(all)
}
