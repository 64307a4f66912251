//! Saved values of a line that is not written yet.

use smallvec::SmallVec;

/// Initial capacity in bytes, which suffices for most lines.
const USUAL: usize = 256;

/// Concatenated values in the order of the format.
#[derive(Debug, Default)]
pub(super) struct Values {
    bytes: Vec<u8>,
    /// End offset of each value. A head is far smaller than 4 GiB.
    ends: SmallVec<[u32; 4]>,
}

impl Values {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    pub(super) fn put(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.bytes.capacity() == 0 {
            self.bytes.reserve(USUAL);
        }
        write(&mut self.bytes);
        self.ends.push(u32::try_from(self.bytes.len()).unwrap_or(u32::MAX));
    }

    /// Returns the values in the order in which they were saved.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |end| {
            let end = *end as usize;
            self.bytes.get(std::mem::replace(&mut start, end)..end).unwrap_or_default()
        })
    }
}
