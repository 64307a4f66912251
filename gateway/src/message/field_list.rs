//! The fields of a head as offsets into its text, in order and with the case of their names.
//!
//! Building a map costs more than all other work on a small head. Heads have few fields, and
//! comparing the length of a name excludes nearly all of them.

use std::cell::RefCell;
use std::mem;
use std::ops::Range;

use http::header::{HeaderName, HeaderValue};

use crate::message::fields::Fields;
use crate::message::fields::FieldsMut;

/// The text of a head and the offsets of its fields. Added fields are appended to the text. Its
/// memory is reused from a list that was dropped on the same thread.
#[derive(Debug)]
pub struct FieldList {
    text: Vec<u8>,
    places: Vec<FieldOffsets>,
    /// Bit set of name lengths (modulo 64). Most lookups are for absent names and end here.
    lengths: u64,
    /// State saved by [`keep`](Self::keep): the offsets, and the length of the text.
    kept: Vec<FieldOffsets>,
    kept_text: usize,
}

/// Maximum capacity in bytes of a text buffer that is kept for reuse.
const KEPT_TEXT: usize = 16 * 1024;
/// Number of lists whose memory a thread keeps.
const KEPT_LISTS: usize = 256;

/// Reusable memory of a list: text, offsets, and saved offsets.
type Memory = (Vec<u8>, Vec<FieldOffsets>, Vec<FieldOffsets>);

thread_local! {
    static SPARE: RefCell<Vec<Memory>> = const { RefCell::new(Vec::new()) };
}

/// Offsets of a field within its head. `u32` suffices: heads are far shorter than 4 GiB.
#[derive(Clone, Copy, Debug)]
struct FieldOffsets {
    name: u32,
    name_length: u32,
    value: u32,
    value_length: u32,
}

impl FieldList {
    /// Takes over a head and its fields, which must be slices of `text`.
    pub(crate) fn read(&mut self, text: &[u8], fields: &[httparse::Header<'_>]) {
        self.text.clear();
        self.text.extend_from_slice(text);
        let start = text.as_ptr().addr();
        self.places.clear();
        self.lengths = fields.iter().fold(0, |all, field| all | bit(field.name.len()));
        self.places.extend(fields.iter().map(|field| FieldOffsets {
            name: (field.name.as_ptr().addr() - start) as u32,
            name_length: field.name.len() as u32,
            value: (field.value.as_ptr().addr() - start) as u32,
            value_length: field.value.len() as u32,
        }));
    }

    /// Reserves memory for `fields` fields with `bytes` bytes of names and values, and for those
    /// that the pipeline adds.
    pub(crate) fn reserve(&mut self, bytes: usize, fields: usize) {
        const ADDED: usize = 16;
        self.text.reserve(bytes + (fields + ADDED) * 32);
        self.places.reserve(fields + ADDED);
    }

    /// Appends a part of the head that is not a field.
    pub(crate) fn push_text(&mut self, text: &str) {
        self.text.extend_from_slice(text.as_bytes());
    }

    /// Appends a field and its line.
    pub(crate) fn push_line(&mut self, name: &[u8], value: &[u8]) {
        let start = self.text.len();
        line(&mut self.text, name, value);
        self.lengths |= bit(name.len());
        self.places.push(FieldOffsets {
            name: start as u32,
            name_length: name.len() as u32,
            value: (start + name.len() + 2) as u32,
            value_length: value.len() as u32,
        });
    }

    /// Saves the current fields.
    pub(crate) fn keep(&mut self) {
        self.kept.clone_from(&self.places);
        self.kept_text = self.text.len();
    }

    /// Restores the saved fields.
    pub(crate) fn restore(&mut self) {
        self.places.clone_from(&self.kept);
        self.text.truncate(self.kept_text);
        self.lengths = self.places.iter().fold(0, |all, place| all | bit(place.name_length as usize));
    }

    /// Frees memory that the fields do not need.
    pub(crate) fn shrink(&mut self) {
        self.text.shrink_to_fit();
        self.places.shrink_to_fit();
        self.kept.shrink_to_fit();
    }

    /// Removes everything.
    pub(crate) fn clear(&mut self) {
        self.text.clear();
        self.places.clear();
        self.kept.clear();
        self.lengths = 0;
    }

    /// Returns the text, including appended fields.
    pub(crate) fn text(&self) -> &[u8] {
        &self.text
    }

    /// Returns all fields.
    pub(crate) fn iter(&self) -> impl DoubleEndedIterator<Item = (&[u8], &[u8])> {
        self.places.iter().map(|place| (self.name(place), self.value(place)))
    }

    /// Returns all fields in the types of `http`. Fields that were parsed as a head are valid
    /// there.
    pub(crate) fn parsed(&self) -> impl Iterator<Item = (HeaderName, HeaderValue)> {
        self.iter().filter_map(|(name, value)| {
            Some((HeaderName::from_bytes(name).ok()?, HeaderValue::from_bytes(value).ok()?))
        })
    }

    /// Writes all fields as lines. Adjacent lines of the text are copied at once.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let mut run = 0..0;
        for place in &self.places {
            match self.whole_line(place) {
                Some(line) if line.start == run.end => run.end = line.end,
                found => {
                    out.extend_from_slice(&self.text[run]);
                    run = found.unwrap_or_else(|| {
                        line(out, self.name(place), self.value(place));
                        0..0
                    });
                }
            }
        }
        out.extend_from_slice(&self.text[run]);
    }

    /// Returns the range of a field's line in the text, if it has exactly the form in which it is
    /// written.
    fn whole_line(&self, place: &FieldOffsets) -> Option<Range<usize>> {
        let (start, colon) = (place.name as usize, (place.name + place.name_length) as usize);
        let (value, end) = (place.value as usize, (place.value + place.value_length) as usize);
        let is_whole = value == colon + 2
            && self.text.get(colon..value) == Some(b": ")
            && self.text.get(end..end + 2) == Some(b"\r\n");
        is_whole.then_some(start..end + 2)
    }

    fn name(&self, place: &FieldOffsets) -> &[u8] {
        &self.text[place.name as usize..][..place.name_length as usize]
    }

    fn value(&self, place: &FieldOffsets) -> &[u8] {
        &self.text[place.value as usize..][..place.value_length as usize]
    }

    /// Returns the offsets of the fields with this name.
    fn places(&self, name: &[u8]) -> impl DoubleEndedIterator<Item = &FieldOffsets> {
        let places = match self.lengths & bit(name.len()) {
            0 => &[],
            _ => &self.places[..],
        };
        places.iter().filter(move |place| place.is(&self.text, name))
    }

    fn remove_from(&mut self, start: usize, name: &[u8]) {
        let (text, mut index) = (&self.text, 0);
        // One pass over all fields, however many match.
        self.places.retain(|place| {
            index += 1;
            index <= start || !place.is(text, name)
        });
    }

    fn add(&mut self, bytes: &[u8]) -> (u32, u32) {
        let start = self.text.len();
        self.text.extend_from_slice(bytes);
        (start as u32, bytes.len() as u32)
    }
}

impl Default for FieldList {
    fn default() -> Self {
        let (text, places, kept) = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
        Self { text, places, lengths: 0, kept, kept_text: 0 }
    }
}

impl Clone for FieldList {
    fn clone(&self) -> Self {
        let mut copy = Self::default();
        (copy.lengths, copy.kept_text) = (self.lengths, self.kept_text);
        copy.text.extend_from_slice(&self.text);
        copy.places.extend_from_slice(&self.places);
        copy.kept.extend_from_slice(&self.kept);
        copy
    }
}

impl Drop for FieldList {
    fn drop(&mut self) {
        if self.text.capacity() == 0 || self.text.capacity() > KEPT_TEXT {
            return;
        }
        self.clear();
        let memory = (mem::take(&mut self.text), mem::take(&mut self.places), mem::take(&mut self.kept));
        // The access fails only while the thread ends; the memory is then freed.
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < KEPT_LISTS {
                spare.push(memory);
            }
        });
    }
}

impl FieldOffsets {
    /// Returns whether the field has this name.
    fn is(&self, text: &[u8], name: &[u8]) -> bool {
        self.name_length as usize == name.len()
            && text[self.name as usize..][..name.len()].eq_ignore_ascii_case(name)
    }
}

fn bit(length: usize) -> u64 {
    1 << (length % 64)
}

/// Writes one field line.
pub(crate) fn line(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.extend_from_slice(name);
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

impl Fields for FieldList {
    fn each(&self, mut visit: impl FnMut(&[u8], &[u8])) {
        self.iter().for_each(|(name, value)| visit(name, value));
    }

    fn may_have_lengths(&self, lengths: u64) -> bool {
        self.lengths & lengths != 0
    }

    fn first(&self, name: &HeaderName) -> Option<&[u8]> {
        self.places(name.as_str().as_bytes()).next().map(|place| self.value(place))
    }

    fn lines<'f>(&'f self, name: &'f HeaderName) -> impl DoubleEndedIterator<Item = &'f [u8]> {
        self.places(name.as_str().as_bytes()).map(|place| self.value(place))
    }
}

impl FieldsMut for FieldList {
    /// Replaces the value of the first field of this name and keeps its position and case.
    fn set(&mut self, name: &HeaderName, value: &HeaderValue) {
        let text = name.as_str().as_bytes();
        if self.lengths & bit(text.len()) == 0 {
            return self.append(name, value);
        }
        let Some(at) = self.places.iter().position(|place| place.is(&self.text, text)) else {
            return self.append(name, value);
        };
        (self.places[at].value, self.places[at].value_length) = self.add(value.as_bytes());
        self.remove_from(at + 1, text);
    }

    fn append(&mut self, name: &HeaderName, value: &HeaderValue) {
        self.push_line(name.as_str().as_bytes(), value.as_bytes());
    }

    fn remove(&mut self, name: &HeaderName) {
        let text = name.as_str().as_bytes();
        if self.lengths & bit(text.len()) != 0 {
            self.remove_from(0, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use http::header::{COOKIE, HOST, SERVER};
    use proptest::prelude::*;

    use super::*;

    fn list(text: &str) -> FieldList {
        let mut fields = [httparse::EMPTY_HEADER; 64];
        let (_, fields) = httparse::parse_headers(text.as_bytes(), &mut fields).unwrap().unwrap();
        let mut list = FieldList::default();
        list.read(text.as_bytes(), fields);
        list
    }

    fn written(list: &FieldList) -> String {
        let mut out = Vec::new();
        list.write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn order_and_case_stay() {
        let mut head = list("hOsT: a\r\nCookie: 1\r\nX-A:2\r\ncookie: 3\r\n\r\n");
        assert_eq!(head.first(&HOST), Some(&b"a"[..]));
        assert_eq!(head.lines(&COOKIE).collect::<Vec<_>>(), [b"1", b"3"]);
        head.set(&HOST, &HeaderValue::from_static("b"));
        head.set(&COOKIE, &HeaderValue::from_static("4"));
        head.append(&SERVER, &HeaderValue::from_static("s"));
        assert_eq!(written(&head), "hOsT: b\r\nCookie: 4\r\nX-A: 2\r\nserver: s\r\n");
        head.remove(&COOKIE);
        assert!(!head.has(&COOKIE));
        assert_eq!(written(&head), "hOsT: b\r\nX-A: 2\r\nserver: s\r\n");
    }

    proptest! {
        #[test]
        fn lines_are_written_alike_however_they_came(
            start in prop::collection::vec((0_usize..4, " {0,2}", "[a-z]{0,2}", " {0,1}"), 0..8),
            steps in prop::collection::vec((0_u8..3, 0_usize..4, 0_u8..9), 0..6),
        ) {
            let names = ["a", "bb", "X-c", "d"];
            let came = |(name, before, value, behind): &(usize, String, String, String)| {
                format!("{}:{before}{value}{behind}\r\n", names[*name])
            };
            let mut list = list(&(start.iter().map(came).collect::<String>() + "\r\n"));
            for (step, name, value) in &steps {
                let name = HeaderName::from_bytes(names[*name].as_bytes()).unwrap();
                let value = HeaderValue::from(u16::from(*value));
                match step {
                    0 => list.set(&name, &value),
                    1 => list.append(&name, &value),
                    _ => list.remove(&name),
                };
            }
            let mut expected = Vec::new();
            list.iter().for_each(|(name, value)| line(&mut expected, name, value));
            prop_assert_eq!(written(&list).into_bytes(), expected);
        }

        #[test]
        fn restore_returns_the_kept_fields_after_any_change(
            start in prop::collection::vec((0_usize..4, 0_u8..9), 0..8),
            steps in prop::collection::vec((0_u8..3, 0_usize..4, 0_u8..9), 0..12),
        ) {
            let names = ["a", "bb", "x-c", "d"];
            let text: String = start.iter().map(|(name, value)| format!("{}: {value}\r\n", names[*name])).collect();
            let mut list = list(&(text + "\r\n"));
            list.keep();
            let before = (written(&list), list.lengths);
            for _ in 0..2 {
                for (step, name, value) in &steps {
                    let (name, value) =
                        (HeaderName::from_static(names[*name]), HeaderValue::from(u16::from(*value)));
                    match step {
                        0 => list.set(&name, &value),
                        1 => list.append(&name, &value),
                        _ => list.remove(&name),
                    };
                }
                list.restore();
                prop_assert_eq!(&(written(&list), list.lengths), &before);
            }
        }

        #[test]
        fn it_does_what_a_map_does(
            start in prop::collection::vec((0_usize..4, 0_u8..9), 0..8),
            steps in prop::collection::vec((0_u8..3, 0_usize..4, 0_u8..9), 0..12),
        ) {
            let names = ["a", "bb", "x-c", "d"];
            let text: String = start.iter().map(|(name, value)| format!("{}: {value}\r\n", names[*name])).collect();
            let mut list = list(&(text + "\r\n"));
            let mut map = HeaderMap::new();
            for (name, value) in start {
                map.append(names[name], HeaderValue::from(u16::from(value)));
            }
            for (step, name, value) in steps {
                let (name, value) = (HeaderName::from_static(names[name]), HeaderValue::from(u16::from(value)));
                match step {
                    0 => (list.set(&name, &value), FieldsMut::set(&mut map, &name, &value)),
                    1 => (list.append(&name, &value), FieldsMut::append(&mut map, &name, &value)),
                    _ => (list.remove(&name), FieldsMut::remove(&mut map, &name)),
                };
            }
            for name in names.map(HeaderName::from_static) {
                let one: Vec<_> = list.lines(&name).collect();
                let other: Vec<_> = Fields::lines(&map, &name).collect();
                prop_assert_eq!(one, other, "{}", name);
            }
        }
    }
}
