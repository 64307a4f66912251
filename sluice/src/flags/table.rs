//! The table of flags: one entry each, grouped as `--help` prints them.

mod admission;
mod class;
mod geoip;
mod listeners;
mod logging;
mod metrics;
mod program;
mod sources;
mod status;

use super::value::Value;

/// One flag.
pub(super) struct Flag {
    /// Name without the dashes.
    pub(super) name: &'static str,
    /// Type, and where the value goes.
    pub(super) value: Value,
    /// Default in the form an operator would give it; empty for none.
    pub(super) default: &'static str,
    /// One line of help.
    pub(super) help: &'static str,
}

/// Flags that belong together.
pub(super) struct Group {
    /// Heading in `--help`.
    pub(super) heading: &'static str,
    /// The flags.
    pub(super) flags: &'static [Flag],
}

/// Every flag of `serve`.
pub(super) const GROUPS: &[Group] = &[
    Group { heading: "Sluice", flags: program::FLAGS },
    Group { heading: "Class and scope", flags: class::FLAGS },
    Group { heading: "Configuration sources", flags: sources::FLAGS },
    Group { heading: "Status and leader election", flags: status::FLAGS },
    Group { heading: "Listeners and TLS", flags: listeners::FLAGS },
    Group { heading: "Admission and safety", flags: admission::FLAGS },
    Group { heading: "Metrics", flags: metrics::FLAGS },
    Group { heading: "GeoIP", flags: geoip::FLAGS },
    Group { heading: "Program log", flags: logging::FLAGS },
];

/// Every flag, group by group.
pub(super) fn all() -> impl Iterator<Item = &'static Flag> {
    GROUPS.iter().flat_map(|group| group.flags)
}

/// An entry; the order of its parts is the order in which they are read.
const fn flag(name: &'static str, value: Value, default: &'static str, help: &'static str) -> Flag {
    Flag { name, value, default, help }
}
