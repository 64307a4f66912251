//! Values that are put away for a line until it is written.

use smallvec::SmallVec;

/// Values one behind the other, in the order of the format.
#[derive(Debug, Default)]
pub(super) struct Values {
    bytes: Vec<u8>,
    /// Where each ends, and whether there is none.
    ends: SmallVec<[(u32, bool); 4]>,
}

impl Values {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    pub(super) fn put(&mut self, write: impl FnOnce(&mut Vec<u8>) -> Option<()>) {
        if self.bytes.capacity() == 0 {
            self.bytes.reserve(256);
        }
        let is_there = write(&mut self.bytes).is_some();
        // A head is far smaller than 4 GiB.
        self.ends.push((u32::try_from(self.bytes.len()).unwrap_or(u32::MAX), is_there));
    }

    /// Writes the next one.
    pub(super) fn write(&self, next: &mut usize, out: &mut Vec<u8>) -> Option<()> {
        let start = next.checked_sub(1).map_or(0, |before| self.ends[before].0);
        let (end, is_there) = *self.ends.get(*next)?;
        *next += 1;
        out.extend_from_slice(self.bytes.get(start as usize..end as usize)?);
        is_there.then_some(())
    }
}
