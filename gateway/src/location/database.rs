//! One database in memory.

use std::net::IpAddr;

use maxminddb::{MaxMindDbError, PathElement, Reader};
use sluice_config::{CountryCode, LocationStep};
use smallvec::SmallVec;

use super::value::Value;

/// A database whose structure has been verified.
#[derive(Debug)]
pub(super) struct Database(Reader<Vec<u8>>);

impl Database {
    /// Reads the content of a file.
    ///
    /// # Errors
    /// It is not a database in MaxMind's format, or it is damaged.
    pub(super) fn read(content: Vec<u8>) -> Result<Self, MaxMindDbError> {
        let reader = Reader::from_source(content)?;
        reader.verify()?;
        Ok(Self(reader))
    }

    /// Returns the value at `path` in the record of the address.
    pub(super) fn value(&self, client: IpAddr, path: &[LocationStep]) -> Option<Value<'_>> {
        let path: SmallVec<[PathElement<'_>; 4]> = path
            .iter()
            .map(|step| match step {
                LocationStep::Key(key) => PathElement::Key(key),
                LocationStep::Index(index) => PathElement::Index(*index),
            })
            .collect();
        // A database of IPv4 addresses has no IPv6 addresses, which is an error; a record of
        // another structure has no value at the path.
        self.0.lookup(client).ok()?.decode_path(&path).ok()?
    }

    /// Returns the country of an address.
    pub(super) fn country(&self, client: IpAddr) -> Option<CountryCode> {
        match self.value(client, &[LocationStep::Key("country"), LocationStep::Key("iso_code")])? {
            Value::Text(code) => code.parse().ok(),
            _ => None,
        }
    }

    /// Returns when the database was made, in seconds since 1970.
    pub(super) fn built(&self) -> u64 {
        self.0.metadata().build_epoch
    }
}
