//! Keys about traces.

use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Duration;

use sluice_config::{
    Code, Collector, CollectorProtocol, GlobalSettings, Moment, RootSampler, SampledShare, TraceSettings,
};

use super::Key;
use crate::translate::setting::MissingSetting;
use crate::translate::template;
use crate::translate::value::{self, Type};

/// The port of OTLP over HTTP.
const HTTP_PORT: u16 = 4318;
/// The path of OTLP over HTTP for traces, which a URL may end with.
const TRACES_PATH: &str = "/v1/traces";

/// Keys that have a meaning together only.
#[derive(Clone, Debug)]
pub(super) struct TraceKeys {
    host: Option<CollectorHost>,
    port: u16,
    sampler: RootKind,
    share: SampledShare,
}

/// `otlp-collector-host`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CollectorHost {
    name: Arc<str>,
    /// The port of a URL, in place of `otlp-collector-port`.
    port: Option<u16>,
    /// The base path of a URL with a path, for OTLP over HTTP.
    base: Option<Arc<str>>,
}

/// `otel-sampler`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RootKind {
    AlwaysOn,
    AlwaysOff,
    Ratio,
}

impl Default for TraceKeys {
    fn default() -> Self {
        Self { host: None, port: 4317, sampler: RootKind::AlwaysOn, share: SampledShare::of(0.01) }
    }
}

impl TraceKeys {
    /// Sets the values that several keys determine.
    pub(super) fn apply(self, settings: &mut TraceSettings) {
        let Self { host, port, sampler, share } = self;
        settings.collector = host.map(|host| host.collector(port));
        settings.sampler.root = match sampler {
            RootKind::AlwaysOn => RootSampler::AlwaysOn,
            RootKind::AlwaysOff => RootSampler::AlwaysOff,
            RootKind::Ratio => RootSampler::TraceIdRatioBased(share),
        };
    }

    /// Returns the keys that need a collector, if there is none.
    pub(super) fn missing(&self, settings: &GlobalSettings) -> impl Iterator<Item = MissingSetting> + use<> {
        let missing = |name, reason| MissingSetting {
            name,
            code: Code::KeyInvalid,
            reason,
            remedy: "set otlp-collector-host to the host of an OTLP collector",
        };
        let spans = missing(
            "enable-opentelemetry",
            "has no otlp-collector-host to send spans to; requests carry a trace context, and nothing is sent",
        );
        let lines = missing(
            "otlp-access-log",
            "has no otlp-collector-host to send lines to; they go to the log only",
        );
        let all = [(settings.trace.enabled, spans), (settings.access_log.to_collector, lines)];
        let is_unset = self.host.is_none();
        all.into_iter().filter_map(move |(is_set, missing)| (is_set && is_unset).then_some(missing))
    }
}

impl CollectorHost {
    /// Parses a host, or a URL with `http`. The error completes "the value ...".
    fn read(text: &str) -> Result<Self, String> {
        let (rest, is_url) = match text.strip_prefix("http://") {
            Some(rest) => (rest, true),
            None if text.starts_with("https://") => {
                return Err("must not be a URL with https: spans are sent without TLS".to_owned());
            }
            None => (text, false),
        };
        let (authority, path) = match rest.find('/') {
            Some(at) if is_url => (&rest[..at], Some(&rest[at..])),
            _ => (rest, None),
        };
        let (name, port) = match authority.rsplit_once(':') {
            // An IPv6 address without brackets has several colons.
            Some((name, port)) if !port.contains(']') && authority.parse::<Ipv6Addr>().is_err() => {
                let port = port.parse().ok().filter(|port| *port != 0);
                (name, Some(port.ok_or("has a port that is not an integer from 1 to 65535")?))
            }
            _ => (authority, None),
        };
        let name = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        let is_name = |text: &str| {
            !text.is_empty()
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
        };
        if !is_name(name) && name.parse::<Ipv6Addr>().is_err() {
            return Err("must have a host name or an address".to_owned());
        }
        if path
            .is_some_and(|path| !path.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#".contains(&byte)))
        {
            return Err("has a path that cannot be requested".to_owned());
        }
        let base = path.map(|path| {
            let path = path.trim_end_matches('/');
            path.strip_suffix(TRACES_PATH).unwrap_or(path).into()
        });
        Ok(Self { name: name.into(), port, base })
    }

    fn collector(self, port: u16) -> Collector {
        let port = self.port.unwrap_or(port);
        let protocol = match self.base {
            Some(base) => CollectorProtocol::Http { base },
            None if port == HTTP_PORT => CollectorProtocol::Http { base: "".into() },
            None => CollectorProtocol::Grpc,
        };
        Collector { host: self.name, port, protocol }
    }
}

fn collector_host() -> Type<CollectorHost> {
    Type::new(
        "a host name, an address, or a URL such as http://collector:4318/v1/traces",
        CollectorHost::read,
    )
}

pub(super) fn settings() -> Vec<Key> {
    vec![
        Key::served(
            "enable-opentelemetry",
            value::bool(),
            "false",
            "Trace requests: endpoints get a trace context, and sampled requests are sent as spans to \
             otlp-collector-host.",
            |settings, value| settings.global.trace.enabled = value,
        ),
        Key::served(
            "opentelemetry-trust-incoming-span",
            value::bool(),
            "true",
            "Continue the trace of the client (traceparent and tracestate); otherwise these fields are replaced.",
            |settings, value| settings.global.trace.trusts_incoming = value,
        ),
        Key::served(
            "opentelemetry-operation-name",
            template::field(Moment::End),
            "",
            "Name of a request's span, with variables; empty is the path of the rule.",
            |settings, value| settings.global.trace.span_name = value,
        )
        .unchecked_by_reference(),
        Key::no_effect(
            "opentelemetry-config",
            value::text(),
            "/etc/ingress-controller/telemetry/opentelemetry.toml",
            "Sluice does not run nginx",
            "Path of a configuration file of the module.",
        )
        .unchecked_by_reference(),
        Key::served(
            "otlp-collector-host",
            collector_host(),
            "",
            "Host of the collector that receives spans by OTLP over gRPC, without TLS. A URL with http may \
             name a port, which takes precedence over otlp-collector-port. OTLP over HTTP with Protobuf is used \
             if the URL has a path, to which /v1/traces is appended, or if the port is 4318.",
            |settings, value| settings.traces.host = Some(value),
        )
        .unchecked_by_reference(),
        Key::served(
            "otlp-collector-port",
            value::within(1, 65535).decimal(),
            "4317",
            "Port of the collector; 4318 is OTLP over HTTP.",
            // The range was checked.
            |settings, value| settings.traces.port = u16::try_from(value).unwrap_or(4317),
        )
        .unchecked_by_reference(),
        Key::served(
            "otlp-access-log",
            value::bool(),
            "false",
            "Also send the lines of the access log to otlp-collector-host, as log records with the ids of the \
             trace. The keys otel-max-queuesize, otel-schedule-delay-millis and otel-max-export-batch-size apply \
             to them too.",
            |settings, value| settings.global.access_log.to_collector = value,
        )
        .absent_in_reference(),
        Key::served(
            "otel-service-name",
            value::field(),
            "nginx",
            "Name of the service in traces (service.name).",
            |settings, value| settings.global.trace.service_name = value,
        )
        .unchecked_by_reference(),
        Key::served(
            "otel-sampler",
            value::one_of(&[
                ("AlwaysOn", RootKind::AlwaysOn),
                ("AlwaysOff", RootKind::AlwaysOff),
                ("TraceIdRatioBased", RootKind::Ratio),
            ]),
            "AlwaysOn",
            "Which traces are sampled: all, none, or the share otel-sampler-ratio by their ids.",
            |settings, value| settings.traces.sampler = value,
        )
        .unchecked_by_reference(),
        Key::served(
            "otel-sampler-ratio",
            value::ratio(),
            "0.01",
            "Share of traces that TraceIdRatioBased samples.",
            |settings, value| settings.traces.share = SampledShare::of(value),
        ),
        Key::served(
            "otel-sampler-parent-based",
            value::bool(),
            "true",
            "A trace of the client that is continued is sampled if the client samples it, whatever \
             otel-sampler decides.",
            |settings, value| settings.global.trace.sampler.follows_parent = value,
        ),
        Key::served(
            "otel-max-queuesize",
            value::positive(),
            "2048",
            "Maximum number of spans that wait to be sent. Further spans are dropped and counted.",
            |settings, value| settings.global.trace.queue = value,
        ),
        Key::served(
            "otel-schedule-delay-millis",
            value::positive(),
            "5000",
            "Maximum number of milliseconds that a span waits for others of its export.",
            |settings, value| settings.global.trace.delay = Duration::from_millis(value.into()),
        ),
        Key::served(
            "otel-max-export-batch-size",
            value::positive(),
            "512",
            "Maximum number of spans of one export.",
            |settings, value| settings.global.trace.batch = value,
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::value::Author;

    #[test]
    fn the_collector_is_a_host_or_a_url() {
        let http = |base: &str| CollectorProtocol::Http { base: base.into() };
        for (text, port, host, expected_port, protocol) in [
            ("otel.example.svc", 4317, "otel.example.svc", 4317, CollectorProtocol::Grpc),
            ("192.0.2.1", 4318, "192.0.2.1", 4318, http("")),
            ("::1", 55680, "::1", 55680, CollectorProtocol::Grpc),
            ("[::1]:9", 4317, "::1", 9, CollectorProtocol::Grpc),
            ("http://otel.example", 4317, "otel.example", 4317, CollectorProtocol::Grpc),
            ("http://otel.example:8080", 4317, "otel.example", 8080, CollectorProtocol::Grpc),
            ("http://otel.example:8080/", 4317, "otel.example", 8080, http("")),
            ("http://[::1]:8080/otlp", 4317, "::1", 8080, http("/otlp")),
            ("http://h:8080/a/v1/traces", 4317, "h", 8080, http("/a")),
        ] {
            let parsed = collector_host().parse(text, &Author::OPERATOR).unwrap().collector(port);
            let expected = Collector { host: host.into(), port: expected_port, protocol };
            assert_eq!(parsed, expected, "{text}");
        }
        for bad in
            ["", "https://otel.example", "otel.example:0", "a b", "http:///v1", "http://h/a?b", "grpc://h"]
        {
            assert!(collector_host().parse(bad, &Author::OPERATOR).is_err(), "{bad}");
        }
    }
}
