//! Values that are put away for a line until it is written.

use smallvec::SmallVec;

/// Bytes that most heads leave in a line.
const USUAL: usize = 256;

/// Values one behind the other, in the order of the format.
#[derive(Debug, Default)]
pub(super) struct Values {
    bytes: Vec<u8>,
    /// Where each ends. A head is far smaller than 4 GiB.
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

    /// In the order in which they were put away.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut start = 0;
        self.ends.iter().map(move |end| {
            let end = *end as usize;
            self.bytes.get(std::mem::replace(&mut start, end)..end).unwrap_or_default()
        })
    }
}
