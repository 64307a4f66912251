//! A response that has left the order of those in memory, and whose body moves to a file.
//!
//! It remains usable from memory meanwhile. It leaves the store if it cannot be written.

use std::sync::Arc;

use super::file_tier::FileTier;
use super::{PARTS, Slot, Store, StoredBody, StoredResponse};
use crate::cache::files::{BodyFile, Operation};

/// Minimum size of a body in a file. The head of a response, which stays in memory, takes as much.
const LEAST: usize = 1024;

/// The move of one body.
pub(super) struct Demotion {
    store: &'static Store,
    tier: &'static FileTier,
    slot: Slot,
    response: Arc<StoredResponse>,
    /// Bytes of memory of the response.
    weight: usize,
    is_done: bool,
}

impl Demotion {
    /// Starts to move the body of a response that was evicted from memory. Returns false if it must
    /// leave instead.
    pub(super) fn start(store: &'static Store, slot: Slot, weight: usize) -> bool {
        let Some(tier) = store.tier.as_ref().filter(|tier| tier.files.are_usable()) else { return false };
        let Some(response) = store.at(slot) else { return false };
        if response.length() < LEAST || !tier.begin_move(weight, store.limit() / PARTS) {
            return false;
        }
        let demotion = Self { store, tier, slot, response, weight, is_done: false };
        tier.files.run(move || demotion.run());
        true
    }

    fn run(mut self) {
        if let Some(file) = self.write() {
            self.is_done = self.store.moved(self.slot, file);
        }
    }

    /// Writes the file; `None` if there is none.
    fn write(&self) -> Option<BodyFile> {
        let files = &self.tier.files;
        let StoredBody::Memory(body) = &self.response.body else { return None };
        // The folder may have failed while this waited.
        if !files.are_usable() {
            return None;
        }
        let write = || {
            let mut writer = files.create()?;
            let fits = writer.write(body, || self.store.evict_file_now())?;
            Ok(fits.then(|| writer.finish()))
        };
        match write() {
            Ok(file) => {
                files.succeeded();
                file
            }
            Err(error) => {
                files.failed(Operation::Write, &error);
                None
            }
        }
    }
}

impl Drop for Demotion {
    fn drop(&mut self) {
        if !self.is_done {
            self.store.drop_evicted(self.slot);
        }
        self.tier.end_move(self.weight);
        // What describes the file takes memory, too.
        self.store.evict();
    }
}
