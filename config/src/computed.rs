//! Variables that are looked up in a table: the result of translating `map` and `geo` of nginx.

use std::net::IpAddr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::expression::Expression;
use crate::template::Template;

/// A variable whose value is looked up in a table when it is used.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ComputedVariable {
    /// Name without `$`, in lower case.
    pub name: Arc<str>,
    /// The text that is looked up. It has no computed variables but those before this one.
    pub source: Template,
    /// The values.
    pub table: ValueTable,
}

/// A table of values.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ValueTable {
    /// By text (`map`).
    Texts(TextTable),
    /// By address (`geo`).
    Addresses(AddressTable),
}

/// Values by text. Exact texts precede wildcards, and these expressions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TextTable {
    /// Whether a dot at the end of the text is removed first (`hostnames`).
    pub removes_final_dot: bool,
    /// Values of texts in lower case; the case of a text does not count.
    pub exact: Vec<(Arc<str>, Template)>,
    /// Values of texts that end with one of these, which start with a dot, and have more before it;
    /// the longest counts.
    pub suffixes: Vec<(Arc<str>, Template)>,
    /// Values of texts that start with one of these, which end with a dot, and have more behind it;
    /// the longest counts.
    pub prefixes: Vec<(Arc<str>, Template)>,
    /// Values of texts in which an expression matches; the first counts. An empty text matches
    /// none. Values may have the groups of their expression.
    pub expressions: Vec<(Expression, Template)>,
    /// The value of other texts.
    pub default: Template,
}

/// Values by address.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AddressTable {
    /// Disjoint ranges of addresses, sorted.
    pub ranges: Vec<AddressRange>,
    /// The value of other addresses.
    pub default: Arc<str>,
}

/// The value of a range of addresses.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct AddressRange {
    /// The first address.
    pub first: IpAddr,
    /// The last address, of the same version.
    pub last: IpAddr,
    /// The value.
    pub value: Arc<str>,
}
