//! The body of a response that is being stored.

use std::mem;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use pingora_cache::storage::{HandleMiss, MissFinishType};
use pingora_core::Result;

use super::files::BodyFile;
use super::head::StoredHead;
use super::key::CachedUrl;
use super::store::{Epoch, KeyHash, NewResponse, Store, StoredBody};
use super::transfer::{NotStored, Transfer};
use crate::io::budget::SharedReservation;

/// Collects the body of a response that is stored when it is whole.
pub(super) struct BodyWriter {
    store: &'static Store,
    key: KeyHash,
    url: Arc<CachedUrl>,
    epoch: Epoch,
    head: StoredHead,
    body: Destination,
    memory: SharedReservation,
}

/// Where the body is collected.
enum Destination {
    Memory(Vec<u8>),
    File(Transfer),
    /// It is not stored: it is too large, or there is no room for it.
    Nowhere,
}

impl BodyWriter {
    pub(super) fn new(
        store: &'static Store,
        key: KeyHash,
        url: Arc<CachedUrl>,
        epoch: Epoch,
        head: StoredHead,
    ) -> Self {
        let mut memory = store.reservation();
        let body = match memory.try_hold(head.size()) {
            true => Destination::Memory(Vec::new()),
            false => Destination::Nowhere,
        };
        let mut writer = Self { store, key, url, epoch, head, body, memory };
        if writer.head.length().is_some_and(|length| writer.head.size() + length > store.most_in_memory()) {
            writer.move_to_file();
        }
        writer
    }

    async fn append(&mut self, data: &[u8]) {
        let collected = match &self.body {
            Destination::Memory(body) => Some((body.len(), body.capacity())),
            _ => None,
        };
        if collected.is_some_and(|(length, capacity)| !self.reserve(length, capacity, data.len())) {
            self.move_to_file();
        }
        match &mut self.body {
            Destination::Memory(body) => {
                let reserved = self.memory.bytes() - self.head.size();
                body.reserve_exact(reserved.saturating_sub(body.len()));
                body.extend_from_slice(data);
            }
            Destination::File(transfer) => {
                let written = transfer.write(data).await;
                let size = self.head.size() + transfer.memory();
                if written.is_err() || !self.memory.try_hold(size) {
                    self.give_up();
                }
            }
            Destination::Nowhere => {}
        }
    }

    /// Makes room in memory for `more` bytes. Returns false if there is none.
    fn reserve(&mut self, length: usize, capacity: usize, more: usize) -> bool {
        let (length, most) = (length + more, self.store.most_in_memory());
        if self.head.size() + length > most {
            return false;
        }
        if length <= capacity {
            return true;
        }
        let stated = self.head.length().filter(|stated| *stated >= length);
        let capacity = stated.unwrap_or(2 * length).min(most);
        self.memory.try_hold(self.head.size() + capacity)
    }

    /// Continues in a file, if there may be one.
    fn move_to_file(&mut self) {
        let Destination::Memory(body) = mem::replace(&mut self.body, Destination::Nowhere) else { return };
        if self.store.most_in_file() > 0 {
            self.body = Destination::File(Transfer::new(self.store, body));
        } else {
            self.give_up();
        }
    }

    fn give_up(&mut self) {
        self.body = Destination::Nowhere;
        let _ = self.memory.try_hold(0);
    }
}

#[async_trait]
impl HandleMiss for BodyWriter {
    async fn write_body(&mut self, data: Bytes, _: bool) -> Result<()> {
        self.append(&data).await;
        Ok(())
    }

    async fn finish(self: Box<Self>) -> Result<MissFinishType> {
        let Self { store, key, url, epoch, mut head, body, mut memory } = *self;
        // Pingora reports an incomplete body as an error; this is a second line of defence.
        let is_whole = |length: u64| head.length().is_none_or(|stated| stated as u64 == length);
        let (body, length, memory_of_body) = match body {
            Destination::Memory(body) if is_whole(body.len() as u64) => {
                let length = body.len();
                (StoredBody::Memory(body.into_boxed_slice().into()), length as u64, length)
            }
            Destination::File(transfer)
                if is_whole(transfer.length()) && transfer.length() <= store.most_in_file() =>
            {
                match transfer.finish().await {
                    Ok(file) => {
                        let length = file.length();
                        (StoredBody::File(Arc::new(file)), length, BodyFile::memory(length))
                    }
                    Err(NotStored) => return Ok(MissFinishType::Created(0)),
                }
            }
            _ => return Ok(MissFinishType::Created(0)),
        };
        head.state_length(length);
        let size = head.size() + memory_of_body;
        if memory.try_hold(size) {
            store.put(NewResponse { key, url, head, body, memory, epoch });
        }
        Ok(MissFinishType::Created(size))
    }
}
