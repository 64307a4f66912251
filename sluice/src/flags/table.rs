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
pub(super) struct FlagGroup {
    /// Its heading in `--help`.
    pub(super) heading: &'static str,
    /// Its flags.
    pub(super) flags: &'static [Flag],
}

/// All flags of `serve`.
pub(super) const GROUPS: &[FlagGroup] = &[
    FlagGroup { heading: "Sluice", flags: program::FLAGS },
    FlagGroup { heading: "Class and scope", flags: class::FLAGS },
    FlagGroup { heading: "Configuration sources", flags: sources::FLAGS },
    FlagGroup { heading: "Status and leader election", flags: status::FLAGS },
    FlagGroup { heading: "Listeners and TLS", flags: listeners::FLAGS },
    FlagGroup { heading: "Admission and safety", flags: admission::FLAGS },
    FlagGroup { heading: "Metrics", flags: metrics::FLAGS },
    FlagGroup { heading: "GeoIP2", flags: geoip::FLAGS },
    FlagGroup { heading: "Web application firewall", flags: waf::FLAGS },
    FlagGroup { heading: "Limits across replicas", flags: replicas::FLAGS },
    FlagGroup { heading: "Program log", flags: logging::FLAGS },
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
