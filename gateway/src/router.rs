//! The compiled route table: listener group, listener, host, then the first rule whose match holds.
//!
//! The table is immutable to its readers. Whoever applies changes clones it (a few pointers), changes the clone
//! host by host and publishes it; hosts that did not change are shared between the old and the new table, so
//! a change costs what it changes. The order of rules is data made by translation ([`sluice_config::Host`]):
//! nothing here prefers an exact path to a prefix or a longer one to a shorter. The indexes only find, faster
//! than by looking at each rule, those whose path may hold.
//!
//! The table knows matches and hosts, not what is done with a request: the action is a type parameter.

mod authority;
mod error;
mod host;
mod map;
mod names;
mod path;
mod predicate;
mod query;
mod regexes;
mod table;
#[cfg(test)]
mod tests;
mod trie;

pub use authority::host_of;
pub use error::RouterError;
pub use host::{CompiledHost, Reason, RequestView};
pub use path::{PathError, normal_bytes, normalise};
pub(crate) use query::values as query_values;
pub(crate) use regexes::{SIZE_LIMIT as REGEX_SIZE_LIMIT, bounded_bytes_regex, bounded_regex};
pub use table::{Group, HostMatch, RouteTable};
