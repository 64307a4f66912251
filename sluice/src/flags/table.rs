//! The table of flags: one entry per flag, in the groups of `--help`.

mod admission;
mod class;
mod geoip;
mod listeners;
mod logging;
mod metrics;
mod program;
mod replicas;
mod sources;
mod status;
mod waf;

use super::value::Value;

/// A flag.
pub(super) struct Flag {
    /// Its name without the dashes.
    pub(super) name: &'static str,
    /// Its type and destination.
    pub(super) value: Value,
    /// Its default in the form used on the command line; empty for none.
    pub(super) default: &'static str,
    /// Its line of help.
    pub(super) help: &'static str,
    /// Its value is never shown.
    pub(super) is_secret: bool,
}

/// A group of related flags.
pub(super) struct Group {
    /// Its heading in `--help`.
    pub(super) heading: &'static str,
    /// Its flags.
    pub(super) flags: &'static [Flag],
}

/// All flags of `serve`.
pub(super) const GROUPS: &[Group] = &[
    Group { heading: "Sluice", flags: program::FLAGS },
    Group { heading: "Class and scope", flags: class::FLAGS },
    Group { heading: "Configuration sources", flags: sources::FLAGS },
    Group { heading: "Status and leader election", flags: status::FLAGS },
    Group { heading: "Listeners and TLS", flags: listeners::FLAGS },
    Group { heading: "Admission and safety", flags: admission::FLAGS },
    Group { heading: "Metrics", flags: metrics::FLAGS },
    Group { heading: "GeoIP2", flags: geoip::FLAGS },
    Group { heading: "Web application firewall", flags: waf::FLAGS },
    Group { heading: "Limits across replicas", flags: replicas::FLAGS },
    Group { heading: "Program log", flags: logging::FLAGS },
];

/// Returns all flags, group by group.
pub(super) fn all() -> impl Iterator<Item = &'static Flag> {
    GROUPS.iter().flat_map(|group| group.flags)
}

/// Creates an entry. The order of the arguments is the reading order of an entry.
const fn flag(name: &'static str, value: Value, default: &'static str, help: &'static str) -> Flag {
    Flag { name, value, default, help, is_secret: false }
}

impl Flag {
    /// Has a value that is never shown.
    const fn secret(self) -> Self {
        Self { is_secret: true, ..self }
    }
}
