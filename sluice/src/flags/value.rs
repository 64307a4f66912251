//! Values of flags: their types, pflag's syntax for them, and their destinations.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use sluice_config::NamespacedName;
use sluice_controller::label_selector::Selector;
use sluice_gateway::worker::engine_choice::EngineChoice;

use super::settings::ServeFlags;

/// Destination of a flag's value.
pub(super) enum Destination<T> {
    /// This field.
    To(fn(&mut ServeFlags) -> &mut T),
    /// None: the value is validated but has no effect. The text states the reason and what to do.
    Nowhere(&'static str),
}

// Derived implementations would require the same traits of `T`, which is not stored.
impl<T> Copy for Destination<T> {}
impl<T> Clone for Destination<T> {
    fn clone(&self) -> Self {
        *self
    }
}

/// The type of a flag together with its destination.
#[derive(Clone, Copy)]
pub(super) enum Value {
    /// `--name`, `--name=true|false` and Go's other spellings.
    Bool(Destination<bool>),
    /// An integer.
    Int(Destination<i64>),
    /// A TCP port; 0 asks the system for a free one.
    Port(Destination<u16>),
    /// A duration in seconds.
    Seconds(Destination<Duration>),
    /// Go's form of a duration: `30s`, `1h30m`.
    Duration(Destination<Duration>),
    /// The same; zero and negative ones mean the given default.
    PositiveDuration(Destination<Duration>, Duration),
    /// A decimal number.
    Float(Destination<f64>),
    /// Ascending decimal numbers: a comma-separated list, or the flag several times.
    Buckets(Destination<Vec<f64>>),
    /// Any string.
    Text(Destination<String>),
    /// Any string; an empty one is none.
    OptionalText(Destination<Option<String>>),
    /// Strings: a comma-separated list, or the flag several times.
    List(Destination<Vec<String>>),
    /// `namespace/name`; an empty string is none.
    Object(Destination<Option<NamespacedName>>),
    /// An absolute URL path.
    UrlPath(Destination<String>),
    /// A label selector in Kubernetes syntax; an empty string is none.
    Selector(Destination<Option<Selector>>),
    /// A path on this machine; an empty string is none.
    File(Destination<Option<PathBuf>>),
    /// An IP address; an empty string is all addresses.
    Ip(Destination<Option<IpAddr>>),
    /// `IP:PORT`.
    Address(Destination<SocketAddr>),
    /// `IP:PORT`, or `:PORT` for all addresses; an empty string is none.
    Listen(Destination<Option<SocketAddr>>),
    /// `auto`, `proxy` or `direct`.
    Engine(Destination<EngineChoice>),
}

/// The expected format of a value. Completes the sentence "needs ...".
pub(super) type Expected = &'static str;

impl Value {
    /// Parses `text` and stores it; a list is appended to the existing one.
    pub(super) fn put(self, text: &str, flags: &mut ServeFlags) -> Result<(), Expected> {
        match self {
            Self::Bool(destination) => store(destination, bool(text)?, flags),
            Self::Int(destination) => store(destination, int(text)?, flags),
            Self::Port(destination) => {
                store(destination, text.parse().map_err(|_| "a port number from 0 to 65535")?, flags)
            }
            Self::Seconds(destination) => store(destination, seconds(text)?, flags),
            Self::Duration(destination) => store(destination, duration(text)?, flags),
            Self::PositiveDuration(destination, default) => {
                let (negative, length) = match text.strip_prefix('-') {
                    Some(length) => (true, length),
                    None => (false, text),
                };
                let given = duration(length)?;
                store(destination, if negative || given.is_zero() { default } else { given }, flags)
            }
            Self::Float(destination) => store(destination, float(text)?, flags),
            Self::Buckets(destination) => {
                let numbers = text.split(',').map(float).collect::<Result<Vec<_>, _>>()?;
                extend(destination, numbers, flags, |all| all.windows(2).all(|two| two[0] < two[1]))
                    .ok_or("numbers in rising order, such as 0.1,1,10")
            }
            Self::Text(destination) => store(destination, text.to_owned(), flags),
            Self::OptionalText(destination) => store(destination, filled(text).map(str::to_owned), flags),
            Self::List(destination) => {
                let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
                extend(destination, items.map(str::to_owned).collect(), flags, |_| true).ok_or("a list")
            }
            Self::Object(destination) => store(destination, filled(text).map(object).transpose()?, flags),
            Self::UrlPath(destination) => {
                if !text.starts_with('/') {
                    return Err("a path that begins with /");
                }
                store(destination, text.to_owned(), flags)
            }
            Self::Selector(destination) => {
                let selector = filled(text).map(str::parse).transpose();
                let expected = "a label selector such as env=prod,tier!=db,team in (a,b),!legacy";
                store(destination, selector.map_err(|_| expected)?, flags)
            }
            Self::File(destination) => store(destination, filled(text).map(PathBuf::from), flags),
            Self::Ip(destination) => {
                let ip = filled(text).map(|text| text.trim_matches(['[', ']']).parse()).transpose();
                store(destination, ip.map_err(|_| "an IP address, or nothing for all addresses")?, flags)
            }
            Self::Engine(destination) => store(destination, engine(text)?, flags),
            Self::Listen(destination) => store(destination, filled(text).map(listen).transpose()?, flags),
            Self::Address(destination) => {
                store(destination, text.parse().map_err(|_| "an address such as 127.0.0.1:10246")?, flags)
            }
        }
    }

    /// Clears a list, so that the first given value replaces the default.
    pub(super) fn clear(self, flags: &mut ServeFlags) {
        match self {
            Self::Buckets(Destination::To(field)) => field(flags).clear(),
            Self::List(Destination::To(field)) => field(flags).clear(),
            _ => {}
        }
    }

    /// Returns why the value has no effect; `None` if it has one.
    pub(super) fn without_effect(self) -> Option<&'static str> {
        fn reason<T>(destination: Destination<T>) -> Option<&'static str> {
            match destination {
                Destination::To(_) => None,
                Destination::Nowhere(reason) => Some(reason),
            }
        }
        match self {
            Self::Bool(destination) => reason(destination),
            Self::Int(destination) => reason(destination),
            Self::Port(destination) => reason(destination),
            Self::Seconds(destination) | Self::Duration(destination) => reason(destination),
            Self::PositiveDuration(destination, _) => reason(destination),
            Self::Float(destination) => reason(destination),
            Self::Buckets(destination) => reason(destination),
            Self::Text(destination) | Self::UrlPath(destination) => reason(destination),
            Self::OptionalText(destination) => reason(destination),
            Self::List(destination) => reason(destination),
            Self::Object(destination) => reason(destination),
            Self::Selector(destination) => reason(destination),
            Self::File(destination) => reason(destination),
            Self::Ip(destination) => reason(destination),
            Self::Address(destination) => reason(destination),
            Self::Listen(destination) => reason(destination),
            Self::Engine(destination) => reason(destination),
        }
    }

    /// Returns whether the flag may be given without a value.
    pub(super) fn is_bool(self) -> bool {
        matches!(self, Self::Bool(_))
    }

    /// Returns the name of the type in `--help`.
    pub(super) fn type_name(self) -> &'static str {
        match self {
            Self::Bool(_) => "BOOL",
            Self::Int(_) => "INT",
            Self::Port(_) => "PORT",
            Self::Seconds(_) => "SECONDS",
            Self::Duration(_) | Self::PositiveDuration(..) => "DURATION",
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
            Self::Engine(_) => "DRIVER",
        }
    }
}

fn store<T>(destination: Destination<T>, value: T, flags: &mut ServeFlags) -> Result<(), Expected> {
    if let Destination::To(field) = destination {
        *field(flags) = value;
    }
    Ok(())
}

/// Appends to a list. Returns `None` if the resulting list is invalid.
fn extend<T>(
    destination: Destination<Vec<T>>,
    items: Vec<T>,
    flags: &mut ServeFlags,
    valid: fn(&[T]) -> bool,
) -> Option<()> {
    let Destination::To(field) = destination else { return valid(&items).then_some(()) };
    let all = field(flags);
    all.extend(items);
    valid(all).then_some(())
}

fn filled(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

/// Parses a bool like Go's `strconv.ParseBool`.
pub(crate) fn bool(text: &str) -> Result<bool, Expected> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
        _ => Err("true or false"),
    }
}

fn int(text: &str) -> Result<i64, Expected> {
    text.parse().map_err(|_| "an integer")
}

/// 68 years, the limit of durations in the ConfigMap. It can be added to any point in time without
/// overflow.
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

fn engine(text: &str) -> Result<EngineChoice, Expected> {
    match text {
        "auto" | "direct" => Ok(EngineChoice::Direct),
        "proxy" => Ok(EngineChoice::Proxy),
        _ => Err("auto, proxy or direct"),
    }
}

/// Parses a duration like Go's `time.ParseDuration`, without negative values: numbers with units,
/// or `0`.
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
