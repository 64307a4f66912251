//! Buffers that a worker's connections use in turn.
//!
//! Nothing waits while it holds one: bytes are read, looked at and written on without a pause, and only what
//! could not be written is copied to a place of its own. So one buffer serves all connections of a worker, and
//! it is warm in the processor's cache whichever of them is next.

use std::cell::Cell;

/// Bytes per read of a body.
pub(crate) const READ: usize = 64 * 1024;
/// Where in a memory page reads begin. TLS copies from there to the beginning of a page, a few bytes in, and on AMD's
/// Zen 3 and 4 a long copy (`rep movsb`, older glibc) to slightly behind its own place in the page takes fifteen
/// times as long.
const PLACE: usize = PAGE / 2;
const PAGE: usize = 4096;
/// A buffer for heads that has grown beyond this is not kept.
const KEPT: usize = 128 * 1024;

thread_local! {
    static READS: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    static WRITES: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Lends the worker's buffer for reads.
pub(crate) fn read<T>(with: impl FnOnce(&mut [u8]) -> T) -> T {
    READS.with(|cell| {
        let mut buffer = cell.take();
        if buffer.is_empty() {
            buffer = vec![0; READ + PAGE];
        }
        let begin = PLACE.wrapping_sub(buffer.as_ptr().addr()) % PAGE;
        let result = with(&mut buffer[begin..begin + READ]);
        cell.set(buffer);
        result
    })
}

/// Lends the worker's buffer for what is about to be written, empty.
pub(crate) fn write<T>(with: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    WRITES.with(|cell| {
        let mut buffer = cell.take();
        buffer.clear();
        let result = with(&mut buffer);
        if buffer.capacity() <= KEPT {
            cell.set(buffer);
        }
        result
    })
}
