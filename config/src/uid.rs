//! `metadata.uid`: distinguishes objects that had the same name at different times.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The uid of an object. UUIDs, the form that API servers use, are stored in 16 bytes, because
/// every known object has a uid. Other text is stored as it is.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct Uid(Repr);

#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Repr {
    Uuid([u8; 16]),
    Other(Box<str>),
}

const HYPHENS: [usize; 4] = [8, 13, 18, 23];

impl Uid {
    /// Creates a uid from its text.
    pub fn new(text: &str) -> Self {
        Self(uuid(text).map_or_else(|| Repr::Other(text.into()), Repr::Uuid))
    }
}

/// Parses a UUID in canonical lower-case form. Other forms would not print as they were written.
fn uuid(text: &str) -> Option<[u8; 16]> {
    if text.len() != 36 || !HYPHENS.iter().all(|at| text.as_bytes()[*at] == b'-') {
        return None;
    }
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let mut bytes = [0; 16];
    let mut digits = text.bytes().enumerate().filter(|(at, _)| !HYPHENS.contains(at)).map(|(_, byte)| byte);
    for byte in &mut bytes {
        *byte = digit(digits.next()?)? << 4 | digit(digits.next()?)?;
    }
    Some(bytes)
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Other(text) => f.write_str(text),
            Repr::Uuid(bytes) => {
                for (at, byte) in bytes.iter().enumerate() {
                    if matches!(at, 4 | 6 | 8 | 10) {
                        f.write_str("-")?;
                    }
                    write!(f, "{byte:02x}")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Debug for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Uid({self})")
    }
}

impl From<String> for Uid {
    fn from(text: String) -> Self {
        Self::new(&text)
    }
}

impl From<Uid> for String {
    fn from(uid: Uid) -> Self {
        uid.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_is_printed_as_it_was_written() {
        let uuid = "0f8fad5b-d9cb-469f-a165-70867728950e";
        assert!(matches!(Uid::new(uuid).0, Repr::Uuid(_)));
        for text in
            [uuid, "0F8FAD5B-d9cb-469f-a165-70867728950e", "0f8fad5bd9cb469fa16570867728950e", "ä", ""]
        {
            let uid = Uid::new(text);
            assert_eq!(uid.to_string(), text);
            let json = serde_json::to_string(&uid).unwrap();
            assert_eq!(serde_json::from_str::<Uid>(&json).unwrap(), uid);
        }
        assert_eq!(std::mem::size_of::<Option<Uid>>(), 24);
    }
}
