//! Reads a request head from the bytes that have arrived.

use std::time::Duration;

use bytes::Buf;
use sluice_config::GlobalSettings;

use crate::io::wire::Wire;
use crate::message::field_names::FieldNames;
use crate::message::head::{Head, HeadFault, HeadLimits, Scanner};

/// Progress in one head.
#[derive(Debug)]
pub(super) struct HeadReader {
    limits: HeadLimits,
    names: FieldNames,
    scanner: Scanner,
    /// Bytes of empty lines before the head.
    skipped: usize,
    /// Time limit for the whole head.
    pub(super) time_limit: Duration,
}

impl HeadReader {
    pub(super) fn new(settings: &GlobalSettings) -> Self {
        Self {
            limits: HeadLimits::of(settings),
            names: FieldNames::of(settings),
            scanner: Scanner::default(),
            skipped: 0,
            time_limit: settings.client_header_timeout,
        }
    }

    /// Returns the head once it has arrived whole. It stays ahead.
    pub(super) fn read(&mut self, wire: &mut Wire) -> Result<Option<Head>, HeadFault> {
        // A client may send empty lines after a body (RFC 9112 §2.2).
        while self.scanner.is_new() && wire.ahead.starts_with(b"\r\n") && self.skipped < self.limits.head {
            wire.ahead.advance(2);
            self.skipped += 2;
        }
        if matches!(&wire.ahead[..], [] | [b'\r']) {
            return Ok(None);
        }
        let Some(length) = self.scanner.scan(&wire.ahead, &self.limits)? else { return Ok(None) };
        Head::read(&wire.ahead[..length], self.names).map(Some)
    }
}
