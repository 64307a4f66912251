//! Buffers shared by all connections of a worker.
//!
//! No task holds one across an await: bytes are read, inspected and written at once, and only the
//! unsent rest is copied to a buffer of its own. One buffer therefore serves all connections of a
//! worker and stays in the processor's cache.

use std::cell::Cell;

/// Bytes per read of a body.
pub(crate) const READ: usize = 64 * 1024;
/// Offset of reads within a memory page. TLS copies from here to the start of a page, a few bytes
/// in. On AMD's Zen 3 and 4 a long copy (`rep movsb`, older glibc) to slightly behind the same
/// offset in the page takes fifteen times as long.
const PLACE: usize = PAGE / 2;
const PAGE: usize = 4096;
/// Maximum capacity in bytes of the write buffer that is kept.
const KEPT: usize = 128 * 1024;

thread_local! {
    static READS: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
    static WRITES: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// Lends the worker's read buffer.
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

/// Lends the worker's write buffer, empty.
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
