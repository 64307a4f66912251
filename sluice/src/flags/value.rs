//! Values of flags: which types there are, how pflag spells them, and where they are put.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use sluice_config::NamespacedName;
use sluice_controller::label_selector::Selector;
use sluice_gateway::driver::Driver;

use super::settings::ServeFlags;

/// Where the value of a flag goes.
pub(super) enum Place<T> {
    /// Into this field.
    To(fn(&mut ServeFlags) -> &mut T),
    /// Into this field, although it has hardly any effect. Says why, and what to do about it.
    Noted(fn(&mut ServeFlags) -> &mut T, &'static str),
    /// Nowhere: it is accepted and checked but has no effect. Says why, and what to do about it.
    Nowhere(&'static str),
}

// Derived, these would ask the same of `T`, which is only named here.
impl<T> Copy for Place<T> {}
impl<T> Clone for Place<T> {
    fn clone(&self) -> Self {
        *self
    }
}

/// The type of a flag together with its place.
#[derive(Clone, Copy)]
pub(super) enum Value {
    /// `--name`, `--name=true|false` and Go's other spellings.
    Bool(Place<bool>),
    /// An integer.
    Int(Place<i64>),
    /// A TCP port; 0 asks the system for a free one.
    Port(Place<u16>),
    /// A duration in seconds.
    Seconds(Place<Duration>),
    /// Go's form of a duration: `30s`, `1h30m`.
    Duration(Place<Duration>),
    /// A decimal number.
    Float(Place<f64>),
    /// Decimal numbers in rising order: a comma-separated list, or the flag several times.
    Buckets(Place<Vec<f64>>),
    /// Any string.
    Text(Place<String>),
    /// Any string; empty is none.
    OptionalText(Place<Option<String>>),
    /// Strings: a comma-separated list, or the flag several times.
    List(Place<Vec<String>>),
    /// `namespace/name`; empty is none.
    Object(Place<Option<NamespacedName>>),
    /// An absolute URL path.
    UrlPath(Place<String>),
    /// A label selector as Kubernetes writes it; empty is none.
    Selector(Place<Option<Selector>>),
    /// A path of this machine; empty is none.
    File(Place<Option<PathBuf>>),
    /// An IP address; empty is all.
    Ip(Place<Option<IpAddr>>),
    /// `IP:PORT`.
    Address(Place<SocketAddr>),
    /// `IP:PORT`, or `:PORT` for all addresses; empty is none.
    Listen(Place<Option<SocketAddr>>),
    /// `auto`, `proxy` or `direct`.
    Driver(Place<Driver>),
}

/// What a value should have looked like. Completes the sentence "needs ...".
pub(super) type Expected = &'static str;

impl Value {
    /// Reads `text` and puts it in place; a list is added to what is there.
    pub(super) fn put(self, text: &str, flags: &mut ServeFlags) -> Result<(), Expected> {
        match self {
            Self::Bool(place) => store(place, bool(text)?, flags),
            Self::Int(place) => store(place, int(text)?, flags),
            Self::Port(place) => {
                store(place, text.parse().map_err(|_| "a port number from 0 to 65535")?, flags)
            }
            Self::Seconds(place) => store(place, seconds(text)?, flags),
            Self::Duration(place) => store(place, duration(text)?, flags),
            Self::Float(place) => store(place, float(text)?, flags),
            Self::Buckets(place) => {
                let numbers = text.split(',').map(float).collect::<Result<Vec<_>, _>>()?;
                extend(place, numbers, flags, |all| all.windows(2).all(|two| two[0] < two[1]))
                    .ok_or("numbers in rising order, such as 0.1,1,10")
            }
            Self::Text(place) => store(place, text.to_owned(), flags),
            Self::OptionalText(place) => store(place, filled(text).map(str::to_owned), flags),
            Self::List(place) => {
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
                extend(place, items.map(str::to_owned).collect(), flags, |_| true).ok_or("a list")
            }
            Self::Object(place) => store(place, filled(text).map(object).transpose()?, flags),
            Self::UrlPath(place) => {
                if !text.starts_with('/') {
                    return Err("a path that begins with /");
                }
                store(place, text.to_owned(), flags)
            }
            Self::Selector(place) => {
                let selector = filled(text).map(str::parse).transpose();
                let expected = "a label selector such as env=prod,tier!=db,team in (a,b),!legacy";
                store(place, selector.map_err(|_| expected)?, flags)
            }
            Self::File(place) => store(place, filled(text).map(PathBuf::from), flags),
            Self::Ip(place) => {
                let ip = filled(text).map(|text| text.trim_matches(['[', ']']).parse()).transpose();
                store(place, ip.map_err(|_| "an IP address, or nothing for all addresses")?, flags)
            }
            Self::Driver(place) => store(place, driver(text)?, flags),
            Self::Listen(place) => store(place, filled(text).map(listen).transpose()?, flags),
            Self::Address(place) => {
                store(place, text.parse().map_err(|_| "an address such as 127.0.0.1:10246")?, flags)
            }
        }
    }

    /// Forgets what is in a list, so that the first given value replaces the default.
    pub(super) fn clear(self, flags: &mut ServeFlags) {
        match self {
            Self::Buckets(Place::To(field)) => field(flags).clear(),
            Self::List(Place::To(field)) => field(flags).clear(),
            _ => {}
        }
    }

    /// Why the value has no effect, if so.
    pub(super) fn without_effect(self) -> Option<&'static str> {
        fn reason<T>(place: Place<T>) -> Option<&'static str> {
            match place {
                Place::To(_) => None,
                Place::Noted(_, reason) | Place::Nowhere(reason) => Some(reason),
            }
        }
        match self {
            Self::Bool(place) => reason(place),
            Self::Int(place) => reason(place),
            Self::Port(place) => reason(place),
            Self::Seconds(place) | Self::Duration(place) => reason(place),
            Self::Float(place) => reason(place),
            Self::Buckets(place) => reason(place),
            Self::Text(place) | Self::UrlPath(place) => reason(place),
            Self::OptionalText(place) => reason(place),
            Self::List(place) => reason(place),
            Self::Object(place) => reason(place),
            Self::Selector(place) => reason(place),
            Self::File(place) => reason(place),
            Self::Ip(place) => reason(place),
            Self::Address(place) => reason(place),
            Self::Listen(place) => reason(place),
            Self::Driver(place) => reason(place),
        }
    }

    /// Whether the flag may be given without a value.
    pub(super) fn is_bool(self) -> bool {
        matches!(self, Self::Bool(_))
    }

    /// The type as `--help` names it.
    pub(super) fn type_name(self) -> &'static str {
        match self {
            Self::Bool(_) => "BOOL",
            Self::Int(_) => "INT",
            Self::Port(_) => "PORT",
            Self::Seconds(_) => "SECONDS",
            Self::Duration(_) => "DURATION",
            Self::Float(_) => "NUMBER",
            Self::Buckets(_) => "NUMBER,...",
            Self::Text(_) | Self::OptionalText(_) => "TEXT",
            Self::List(_) => "TEXT,...",
            Self::Object(_) => "NAMESPACE/NAME",
            Self::Selector(_) => "SELECTOR",
            Self::UrlPath(_) | Self::File(_) => "PATH",
            Self::Ip(_) => "IP",
            Self::Address(_) => "IP:PORT",
            Self::Listen(_) => "[IP]:PORT",
            Self::Driver(_) => "DRIVER",
        }
    }
}

fn store<T>(place: Place<T>, value: T, flags: &mut ServeFlags) -> Result<(), Expected> {
    if let Place::To(field) | Place::Noted(field, _) = place {
        *field(flags) = value;
    }
    Ok(())
}

/// Adds to a list; `None` when the whole list is then not as it should be.
fn extend<T>(
    place: Place<Vec<T>>,
    items: Vec<T>,
    flags: &mut ServeFlags,
    valid: fn(&[T]) -> bool,
) -> Option<()> {
    let Place::To(field) = place else { return valid(&items).then_some(()) };
    let all = field(flags);
    all.extend(items);
    valid(all).then_some(())
}

fn filled(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

/// Go's `strconv.ParseBool`.
fn bool(text: &str) -> Result<bool, Expected> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("true or false"),
    }
}

fn int(text: &str) -> Result<i64, Expected> {
    text.parse().map_err(|_| "an integer")
}

/// 68 years, as for times in the ConfigMap: they can be added to any moment without an overflow.
const LARGEST_SECONDS: u64 = i32::MAX as u64;

fn seconds(text: &str) -> Result<Duration, Expected> {
    let seconds = text.parse().ok().filter(|seconds| *seconds <= LARGEST_SECONDS);
    seconds.map(Duration::from_secs).ok_or("a duration in seconds, from 0 to 2147483647")
}

fn float(text: &str) -> Result<f64, Expected> {
    text.trim().parse().ok().filter(|number: &f64| number.is_finite()).ok_or("a number")
}

fn object(text: &str) -> Result<NamespacedName, Expected> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok(NamespacedName::new(namespace, name))
        }
        _ => Err("the form namespace/name"),
    }
}

fn listen(text: &str) -> Result<SocketAddr, Expected> {
    let all = |port: &str| port.parse().ok().map(|port: u16| (Ipv6Addr::UNSPECIFIED, port).into());
    let address = text.strip_prefix(':').and_then(all).or_else(|| text.parse().ok());
    address.ok_or("an address such as :8443 or 127.0.0.1:8443")
}

fn driver(text: &str) -> Result<Driver, Expected> {
    match text {
        "auto" | "direct" => Ok(Driver::Direct),
        "proxy" => Ok(Driver::Proxy),
        _ => Err("auto, proxy or direct"),
    }
}

/// Go's `time.ParseDuration`, without negative values: numbers with units, or a bare `0`.
pub(super) fn duration(text: &str) -> Result<Duration, Expected> {
    const EXPECTED: Expected = "a duration such as 30s, 5m or 1h30m, at most 596523h";
    const UNITS: [(&str, f64); 8] = [
        ("ns", 1e-9),
        ("us", 1e-6),
        ("\u{b5}s", 1e-6),
        ("\u{3bc}s", 1e-6),
        ("ms", 1e-3),
        ("s", 1.0),
        ("m", 60.0),
        ("h", 3600.0),
    ];
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Ok(Duration::ZERO);
    }
    if rest.is_empty() {
        return Err(EXPECTED);
    }
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or(EXPECTED)?;
        let (number, tail) = rest.split_at(digits);
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let scale = UNITS.iter().find(|(name, _)| *name == unit).ok_or(EXPECTED)?.1;
        total += number.parse::<f64>().map_err(|_| EXPECTED)? * scale;
        rest = tail;
    }
    let total = Duration::try_from_secs_f64(total).map_err(|_| EXPECTED)?;
    if total.as_secs() > LARGEST_SECONDS { Err(EXPECTED) } else { Ok(total) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        assert_eq!(duration("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5400)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(duration("0"), Ok(Duration::ZERO));
        for bad in ["", "30", "s", "-5s", "1d", "1h30", "1..5s", "1e400h"] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_address_to_listen_on_may_be_a_port_alone() {
        assert_eq!(listen(":8443").unwrap().to_string(), "[::]:8443");
        assert_eq!(listen("127.0.0.1:8443").unwrap().to_string(), "127.0.0.1:8443");
        for bad in ["8443", ":", "localhost:8443", ":70000"] {
            assert!(listen(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn an_object_is_named_by_namespace_and_name() {
        assert_eq!(object("a/b"), Ok(NamespacedName::new("a", "b")));
        for bad in ["a", "/b", "a/", "a/b/c"] {
            assert!(object(bad).is_err(), "{bad}");
        }
    }
}
