//! Active health checks: `sluice.dev/health-check-*`. A check with an unreadable part is not made
//! at all, because with a default instead it could exclude healthy endpoints.

use std::sync::Arc;
use std::time::Duration;

use sluice_config::{CheckKind, HealthCheck, NamespacedName, StatusRange};

use super::{Annotation, Settings};
use crate::translate::setting::Risk;
use crate::translate::value::{self, Author, Type, Wrong};

/// Parsed annotations of this family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HealthChecking {
    kind: Given<Kind>,
    path: Given<Arc<str>>,
    host: Given<Arc<str>>,
    statuses: Given<Arc<[StatusRange]>>,
    service: Given<Arc<str>>,
    port: Given<u32>,
    interval: Given<Duration>,
    timeout: Given<Duration>,
    healthy: Given<u32>,
    unhealthy: Given<u32>,
}

/// A value, or the reason why it is invalid; `None` without the annotation.
type Given<T> = Option<Result<T, String>>;

/// The kind of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Tcp,
    Http,
    Grpc,
}

/// A part of a check: its name, whether it is given, its error, and the kinds that have it.
type Part<'a> = (&'static str, bool, Option<&'a String>, &'static [Kind]);

const TYPE: &str = "sluice.dev/health-check-type";
const PATH: &str = "sluice.dev/health-check-path";
const HOST: &str = "sluice.dev/health-check-host";
const STATUS: &str = "sluice.dev/health-check-status";
const SERVICE: &str = "sluice.dev/health-check-service";
const PORT: &str = "sluice.dev/health-check-port";
const INTERVAL: &str = "sluice.dev/health-check-interval";
const TIMEOUT: &str = "sluice.dev/health-check-timeout";
const HEALTHY: &str = "sluice.dev/health-check-healthy-threshold";
const UNHEALTHY: &str = "sluice.dev/health-check-unhealthy-threshold";

const ALL: &[Kind] = &[Kind::Tcp, Kind::Http, Kind::Grpc];

impl HealthChecking {
    /// Returns the check, if one is configured without errors.
    fn check(&self) -> Option<Arc<HealthCheck>> {
        let kind = self.kind()?;
        if self.wrong().next().is_some() {
            return None;
        }
        let host = || read(&self.host).unwrap_or_else(|| "localhost".into());
        let kind = match kind {
            Kind::Tcp => CheckKind::Tcp,
            Kind::Http => CheckKind::Http {
                path: read(&self.path).unwrap_or_else(|| "/".into()),
                host: host(),
                statuses: read(&self.statuses)
                    .unwrap_or_else(|| [StatusRange { first: 200, last: 399 }].into()),
            },
            Kind::Grpc => CheckKind::Grpc { host: host(), service: read(&self.service).unwrap_or_default() },
        };
        Some(Arc::new(HealthCheck {
            kind,
            port: read(&self.port).and_then(|port| u16::try_from(port).ok()),
            interval: read(&self.interval).unwrap_or(Duration::from_secs(10)),
            timeout: read(&self.timeout).unwrap_or(Duration::from_secs(5)),
            healthy: read(&self.healthy).unwrap_or(2),
            unhealthy: read(&self.unhealthy).unwrap_or(3),
        }))
    }

    /// Returns the annotations without effect, each with the reason.
    fn left_out(&self) -> impl Iterator<Item = (&'static str, String)> {
        self.wrong().map(|(name, reason)| (name, format!("{reason}; the endpoints are not checked")))
    }

    /// Returns the kind; a path alone selects HTTP.
    fn kind(&self) -> Option<Kind> {
        read(&self.kind).or_else(|| (self.kind.is_none() && self.path.is_some()).then_some(Kind::Http))
    }

    fn wrong(&self) -> impl Iterator<Item = (&'static str, String)> {
        let kind = self.kind();
        let unread = self.kind.as_ref().is_some_and(Result::is_err);
        self.parts().into_iter().filter_map(move |(name, given, wrong, kinds)| match (wrong, kind) {
            (Some(wrong), _) => Some((name, wrong.clone())),
            (None, None) if given && !unread => {
                Some((name, format!("has no effect without {TYPE}: http, tcp or grpc")))
            }
            (None, Some(kind)) if given && !kinds.contains(&kind) => Some((
                name,
                format!("has no place in a check of type {}", format!("{kind:?}").to_lowercase()),
            )),
            _ => None,
        })
    }

    fn parts(&self) -> [Part<'_>; 10] {
        fn part<'a, T>(name: &'static str, given: &'a Given<T>, kinds: &'static [Kind]) -> Part<'a> {
            (name, given.is_some(), given.as_ref().and_then(|value| value.as_ref().err()), kinds)
        }
        [
            part(TYPE, &self.kind, ALL),
            part(PATH, &self.path, &[Kind::Http]),
            part(HOST, &self.host, &[Kind::Http, Kind::Grpc]),
            part(STATUS, &self.statuses, &[Kind::Http]),
            part(SERVICE, &self.service, &[Kind::Grpc]),
            part(PORT, &self.port, ALL),
            part(INTERVAL, &self.interval, ALL),
            part(TIMEOUT, &self.timeout, ALL),
            part(HEALTHY, &self.healthy, ALL),
            part(UNHEALTHY, &self.unhealthy, ALL),
        ]
    }
}

fn read<T: Clone>(given: &Given<T>) -> Option<T> {
    given.as_ref().and_then(|value| value.as_ref().ok()).cloned()
}

/// Computes the check.
pub(super) fn finish(settings: &mut Settings, _: &NamespacedName) {
    settings.left_out.extend(settings.health.left_out());
    settings.routes.usage.health_check = settings.health.check();
}

pub(super) fn settings() -> Vec<Annotation> {
    const KINDS: &[(&str, Kind)] = &[("http", Kind::Http), ("tcp", Kind::Tcp), ("grpc", Kind::Grpc)];
    let all = vec![
        Annotation::served(
            TYPE,
            given(value::one_of(KINDS)),
            "",
            "Type of active check: http requests a page, tcp opens a connection, grpc queries the standard \
             health service (grpc.health.v1). A failing endpoint gets no requests, unless all fail. If \
             requests use TLS, http and grpc checks do too; they neither verify nor present a certificate. \
             health-check-path implies http.",
            |settings, value| settings.health.kind = Some(value),
        ),
        Annotation::served(
            PATH,
            given(path()),
            "/",
            "Path that a check of type http requests.",
            |settings, value| settings.health.path = Some(value),
        ),
        Annotation::served(
            HOST,
            given(host()),
            "localhost",
            "Host field (http) or authority (grpc) of a check.",
            |settings, value| settings.health.host = Some(value),
        ),
        Annotation::served(
            STATUS,
            given(statuses()),
            "200-399",
            "Statuses that a check of type http accepts.",
            |settings, value| settings.health.statuses = Some(value),
        ),
        Annotation::served(
            SERVICE,
            given(service()),
            "",
            "Service name that a check of type grpc queries; the whole server if unset.",
            |settings, value| settings.health.service = Some(value),
        ),
        Annotation::served(
            PORT,
            given(value::within(1, 65_535)),
            "",
            "Port of the checks; by default that of the endpoint. A check of a port of the gateway itself \
             fails.",
            |settings, value| settings.health.port = Some(value),
        ),
        Annotation::served(
            INTERVAL,
            given(value::time_within(1, 3600)),
            "10s",
            "Time between two checks of an endpoint, plus or minus a tenth.",
            |settings, value| settings.health.interval = Some(value),
        ),
        Annotation::served(
            TIMEOUT,
            given(value::time_within(1, 60)),
            "5s",
            "Time limit of a check, including its connection.",
            |settings, value| settings.health.timeout = Some(value),
        ),
        Annotation::served(
            HEALTHY,
            given(value::within(1, 100)),
            "2",
            "Successes in a row after which an unhealthy endpoint gets requests again.",
            |settings, value| settings.health.healthy = Some(value),
        ),
        Annotation::served(
            UNHEALTHY,
            given(value::within(1, 100)),
            "3",
            "Failures in a row after which an endpoint gets no more requests.",
            |settings, value| settings.health.unhealthy = Some(value),
        ),
    ];
    all.into_iter().map(|setting| setting.ingress(Risk::Low).absent_in_reference()).collect()
}

/// Wraps a type so that an invalid value is kept with its error, for a report of all parts
/// together.
fn given<T: 'static>(value: Type<T>) -> Type<Result<T, String>> {
    let words = value.words().to_owned();
    Type::new(words, move |text| {
        let read = value.parse(text, &Author::OPERATOR);
        Ok::<_, Wrong>(read.map_err(|wrong| match wrong {
            Wrong::Invalid(reason)
            | Wrong::Forbidden(reason)
            | Wrong::Refused { reason, .. }
            | Wrong::Untranslated { reason, .. } => {
                format!("the value {text:?} {reason}")
            }
            Wrong::NotServed => format!("the value {text:?} is not served yet"),
        }))
    })
}

fn path() -> Type<Arc<str>> {
    let fits = |byte: u8| byte.is_ascii_graphic() && byte != b'#';
    Type::of("a path that begins with /, with a query or without", move |text| {
        (text.starts_with('/') && text.bytes().all(fits)).then(|| text.into())
    })
}

fn host() -> Type<Arc<str>> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"-.:[]".contains(&byte);
    Type::of("a host, with a port or without", move |text| text.bytes().all(fits).then(|| text.into()))
}

fn service() -> Type<Arc<str>> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"._-/".contains(&byte);
    Type::of("the name of a service of at most 127 letters, digits, . _ - and /", move |text| {
        (text.len() < 128 && text.bytes().all(fits)).then(|| text.into())
    })
}

fn statuses() -> Type<Arc<[StatusRange]>> {
    const WORDS: &str = "comma-separated statuses and ranges such as 200-299,404";
    value::list_of(WORDS, |item| value::status_range(item).ok_or_else(|| format!("must be {WORDS}")))
        .and_then(|ranges| match ranges.is_empty() {
            true => Err(format!("must be {WORDS}")),
            false => Ok(Arc::from(ranges)),
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::ingress::annotations::TABLE;

    fn read_all(annotations: &[(&str, &str)]) -> HealthChecking {
        let mut settings = Settings::default();
        for (name, text) in annotations {
            let entry = TABLE.get(&format!("sluice.dev/health-check-{name}")).unwrap();
            entry.apply(text, &Author::OPERATOR, &mut settings).unwrap();
        }
        settings.health
    }

    fn text(annotations: &[(&str, &str)]) -> String {
        read_all(annotations).check().map(|check| check.to_string()).unwrap_or_default()
    }

    #[test]
    fn the_check_follows_its_annotations() {
        assert_eq!(text(&[]), "");
        assert_eq!(
            text(&[("path", "/healthz?full=1")]),
            "http GET /healthz?full=1 of localhost is 200-399, each 10s, 5s, 2 up, 3 down"
        );
        let all = [
            ("type", "HTTP"),
            ("host", "shop.example"),
            ("status", "200, 204-206"),
            ("port", "9090"),
            ("interval", "1m30s"),
            ("timeout", "2s"),
            ("healthy-threshold", "1"),
            ("unhealthy-threshold", "5"),
        ];
        assert_eq!(
            text(&all),
            "http GET / of shop.example is 200,204-206 at port 9090, each 90s, 2s, 1 up, 5 down"
        );
        assert_eq!(text(&[("type", "tcp")]), "tcp connection, each 10s, 5s, 2 up, 3 down");
        assert_eq!(
            text(&[("type", "grpc"), ("service", "shop.Cart")]),
            "grpc service \"shop.Cart\" of localhost is SERVING, each 10s, 5s, 2 up, 3 down"
        );
    }

    #[test]
    fn with_a_part_that_is_wrong_there_is_no_check() {
        for (annotations, wrong) in [
            (&[("type", "udp")][..], "type"),
            (&[("type", "udp"), ("interval", "5s")], "type"),
            (&[("path", "healthz")], "path"),
            (&[("path", "/"), ("status", "600")], "status"),
            (&[("path", "/"), ("status", "300-200")], "status"),
            (&[("path", "/"), ("interval", "0s")], "interval"),
            (&[("path", "/"), ("timeout", "2m")], "timeout"),
            (&[("path", "/"), ("port", "0")], "port"),
            (&[("path", "/"), ("host", "a b")], "host"),
            (&[("interval", "5s")], "interval"),
            (&[("type", "tcp"), ("status", "200")], "status"),
            (&[("type", "tcp"), ("path", "/")], "path"),
            (&[("type", "http"), ("service", "a")], "service"),
        ] {
            let checking = read_all(annotations);
            assert_eq!(checking.check(), None, "{annotations:?}");
            let left_out: Vec<_> = checking.left_out().map(|(name, _)| name).collect();
            assert_eq!(left_out, [format!("sluice.dev/health-check-{wrong}")], "{annotations:?}");
        }
    }
}
