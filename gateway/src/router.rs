//! The compiled route table: listener group, listener, host, then the first rule that matches.
//!
//! The table is immutable for its readers. To apply changes, the table is cloned (a few pointers),
//! the clone is changed host by host, and published. Unchanged hosts are shared between the old and
//! the new table, so the cost of an update is proportional to its changes. Translation determines
//! the order of rules ([`sluice_config::Host`]): the table does not prefer exact paths to prefixes
//! or longer paths to shorter ones. The indexes only speed up the search for rules whose path may
//! match.
//!
//! The table contains matches and hosts only. The action of a rule is a type parameter.

mod authority;
mod error;
mod host;
mod map;
mod names;
mod path;
mod predicate;
mod query;
mod regexes;
mod request_view;
mod table;
#[cfg(test)]
mod tests;
mod trie;

pub use authority::host_of;
pub use error::RouterError;
pub use host::{CompiledHost, Reason};
pub use path::{PathError, normal_bytes, normalise};
pub(crate) use query::values as query_values;
pub use request_view::RequestView;
pub use table::{GroupRoutes, HostMatch, RouteTable};
