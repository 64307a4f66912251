//! Replacement of texts in response bodies (`sub_filter` of nginx), as the body streams.
//!
//! Bytes that may be the start of a text are held back until the next piece decides: at most one
//! byte less than the longest text. Compressed responses pass unchanged.

use std::borrow::Cow;
use std::sync::Arc;

use http::header::{
    ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, LAST_MODIFIED, TRANSFER_ENCODING,
};
use regex::bytes::{Regex, RegexBuilder};
use smallvec::SmallVec;

use super::compression::{self, media_type};
use crate::io::failure::FailureKind;
use crate::message::fields::{Fields, FieldsMut};
use crate::message::framing::Framing;
use crate::message::response::Response;

/// Bytes that one piece of a body may become.
const MOST_OUTPUT: usize = 4 << 20;

/// The texts of a location and the responses that they are replaced in.
#[derive(Debug)]
pub(crate) struct SubstitutionRules {
    texts: Box<[SearchedText]>,
    /// Each text is replaced once per response.
    once: bool,
    any_type: bool,
    /// Media types besides `text/html`, in lower case.
    types: Box<[Box<[u8]>]>,
    keeps_last_modified: bool,
}

#[derive(Debug)]
struct SearchedText {
    search: Regex,
    lower: Box<[u8]>,
}

/// The texts and the replacements for the response to one request.
#[derive(Clone, Debug)]
pub(crate) struct Substitution {
    /// The texts.
    pub(crate) rules: Arc<SubstitutionRules>,
    /// The replacement of each text.
    pub(crate) values: Arc<[Vec<u8>]>,
}

/// The replacement in one body.
#[derive(Debug)]
pub(crate) struct SubstitutionStream {
    substitution: Substitution,
    /// Positions of the texts that are still replaced.
    active: SmallVec<[usize; 4]>,
    held_back: Vec<u8>,
}

impl SubstitutionRules {
    /// Compiles the rules; `types` may have `*`.
    ///
    /// # Errors
    /// A text is empty or too large.
    pub(crate) fn compile<'t>(
        texts: impl Iterator<Item = &'t str>,
        once: bool,
        types: &[Arc<str>],
        keeps_last_modified: bool,
    ) -> Result<Self, regex::Error> {
        Ok(Self {
            texts: texts.map(SearchedText::compile).collect::<Result<_, _>>()?,
            once,
            any_type: types.iter().any(|name| &**name == "*"),
            types: types.iter().map(|name| name.to_ascii_lowercase().into_bytes().into()).collect(),
            keeps_last_modified,
        })
    }
}

impl SearchedText {
    /// As in nginx, the case of ASCII letters does not count.
    fn compile(text: &str) -> Result<Self, regex::Error> {
        let escaped: String = text.bytes().map(|byte| format!("\\x{byte:02X}")).collect();
        let search = RegexBuilder::new(&escaped).unicode(false).case_insensitive(true).build()?;
        Ok(Self { search, lower: text.to_ascii_lowercase().into_bytes().into() })
    }
}

impl Substitution {
    /// Returns the stream for a response whose head describes this body, if its texts are replaced.
    pub(crate) fn begin(&self, response: &Response, body: Framing) -> Option<SubstitutionStream> {
        let SubstitutionRules { any_type, types, texts, .. } = &*self.rules;
        let fields = &response.fields;
        if body.is_done() || fields.has(&CONTENT_ENCODING) {
            return None;
        }
        let media_type = fields.first(&CONTENT_TYPE).map(media_type)?;
        let is_meant =
            *any_type || media_type == b"text/html" || types.iter().any(|known| **known == *media_type);
        is_meant.then(|| SubstitutionStream {
            substitution: self.clone(),
            active: (0..texts.len()).collect(),
            held_back: Vec::new(),
        })
    }
}

impl SubstitutionStream {
    /// Changes the head to that of a changed body: its length is unknown.
    pub(crate) fn change_head(&self, fields: &mut impl FieldsMut) {
        for name in [&CONTENT_LENGTH, &TRANSFER_ENCODING, &ACCEPT_RANGES] {
            fields.remove(name);
        }
        match self.substitution.rules.keeps_last_modified {
            true => compression::weaken_tag(fields),
            false => {
                fields.remove(&LAST_MODIFIED);
                fields.remove(&ETAG);
            }
        }
    }

    /// Passes the next bytes to `write`, as far as they are decided.
    ///
    /// # Errors
    /// The output is too large, or `write` fails.
    pub(crate) fn write(
        &mut self,
        bytes: &[u8],
        write: &mut impl FnMut(&[u8]) -> Result<(), FailureKind>,
    ) -> Result<(), FailureKind> {
        let text = match self.held_back.is_empty() {
            true => Cow::Borrowed(bytes),
            false => Cow::Owned([&std::mem::take(&mut self.held_back), bytes].concat()),
        };
        let decided = text.len() - self.undecided(&text);
        let rest = self.replace(&text, decided, write)?;
        self.held_back.extend_from_slice(&text[rest..]);
        Ok(())
    }

    /// Passes the bytes that are held back, at the end of the body.
    ///
    /// # Errors
    /// The output is too large, or `write` fails.
    pub(crate) fn finish(
        &mut self,
        write: &mut impl FnMut(&[u8]) -> Result<(), FailureKind>,
    ) -> Result<(), FailureKind> {
        let text = std::mem::take(&mut self.held_back);
        self.replace(&text, text.len(), write).map(drop)
    }

    /// Replaces the texts that begin before `decided`. Returns the position behind what was passed.
    fn replace(
        &mut self,
        text: &[u8],
        decided: usize,
        write: &mut impl FnMut(&[u8]) -> Result<(), FailureKind>,
    ) -> Result<usize, FailureKind> {
        let Substitution { rules, values } = &self.substitution;
        let (mut position, mut output) = (0, 0);
        let find =
            |at: usize, from: usize| rules.texts[at].search.find_at(text, from).map(|found| found.range());
        let mut next: SmallVec<[_; 4]> = self.active.iter().map(|at| find(*at, 0)).collect();
        loop {
            for (found, at) in next.iter_mut().zip(&self.active) {
                if found.as_ref().is_some_and(|found| found.start < position) {
                    *found = find(*at, position);
                }
            }
            let first = next.iter().enumerate().filter_map(|(slot, found)| Some((found.clone()?, slot)));
            let Some((found, slot)) = first.min_by_key(|(found, slot)| (found.start, *slot)) else { break };
            if found.start >= decided {
                break;
            }
            let value = values.get(self.active[slot]).map_or(&b""[..], Vec::as_slice);
            output += found.start - position + value.len();
            if output > MOST_OUTPUT {
                return Err(FailureKind::InvalidHead);
            }
            write(&text[position..found.start])?;
            write(value)?;
            position = found.end;
            if rules.once {
                self.active.remove(slot);
                next.remove(slot);
            }
        }
        let end = if self.active.is_empty() { text.len() } else { decided.max(position) };
        write(&text[position..end])?;
        Ok(end)
    }

    /// The number of bytes at the end that may be the start of a text.
    fn undecided(&self, text: &[u8]) -> usize {
        let texts = || self.active.iter().map(|at| &*self.substitution.rules.texts[*at].lower);
        let longest = texts().map(<[u8]>::len).max().unwrap_or_default();
        let tail = text[text.len() - text.len().min(longest.saturating_sub(1))..].to_ascii_lowercase();
        let start = (0..tail.len()).find(|start| texts().any(|text| text.starts_with(&tail[*start..])));
        start.map_or(0, |start| tail.len() - start)
    }
}

#[cfg(test)]
mod tests {
    use http::Method;
    use proptest::prelude::*;

    use super::*;

    fn substitution(pairs: &[(&str, &str)], once: bool) -> Substitution {
        let types = ["text/css".into()];
        let texts = pairs.iter().map(|(text, _)| *text);
        Substitution {
            rules: Arc::new(SubstitutionRules::compile(texts, once, &types, false).unwrap()),
            values: pairs.iter().map(|(_, value)| value.as_bytes().to_vec()).collect(),
        }
    }

    fn response(fields: &str) -> Response {
        let mut response = Response::default();
        let text = format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n");
        response.read(text.as_bytes(), &Method::GET).unwrap().unwrap();
        response
    }

    fn begin(substitution: &Substitution, response: &Response) -> Option<SubstitutionStream> {
        substitution.begin(response, response.framing)
    }

    fn replaced(substitution: &Substitution, pieces: &[&str]) -> String {
        let mut stream = begin(substitution, &response("Content-Type: text/html; charset=utf-8")).unwrap();
        let mut out = Vec::new();
        let mut write = |bytes: &[u8]| {
            out.extend_from_slice(bytes);
            Ok::<_, FailureKind>(())
        };
        for piece in pieces {
            stream.write(piece.as_bytes(), &mut write).unwrap();
        }
        stream.finish(&mut write).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn texts_are_replaced_whatever_their_case_and_pieces() {
        let all = substitution(&[("</head>", "<x></head>"), ("http://a", "https://b")], false);
        let page = "<HEAD></Head>http://ahttp://a<a</head";
        let expected = "<HEAD><x></head>https://bhttps://b<a</head";
        assert_eq!(replaced(&all, &[page]), expected);
        for at in 0..page.len() {
            let (first, second) = page.split_at(at);
            assert_eq!(replaced(&all, &[first, second]), expected, "{at}");
        }
        let bytes: Vec<String> = page.chars().map(String::from).collect();
        assert_eq!(replaced(&all, &bytes.iter().map(|byte| &**byte).collect::<Vec<_>>()), expected);
    }

    #[test]
    fn a_text_is_replaced_once_unless_all_are() {
        let pairs = [("a", "1"), ("b", "")];
        assert_eq!(replaced(&substitution(&pairs, true), &["xabab", "ab"]), "x1abab");
        assert_eq!(replaced(&substitution(&pairs, false), &["xabab", "ab"]), "x111");
    }

    #[test]
    fn the_first_of_two_texts_that_begin_at_the_same_byte_counts() {
        let pairs = [("abc", "long"), ("ab", "short")];
        for pieces in [&["abcab"][..], &["ab", "cab"], &["a", "b", "c", "a", "b"]] {
            assert_eq!(replaced(&substitution(&pairs, false), pieces), "longshort");
        }
    }

    #[test]
    fn only_plain_responses_of_the_media_types_are_changed() {
        let substitution = substitution(&[("a", "b")], true);
        let begins = |fields| begin(&substitution, &response(fields)).is_some();
        assert!(begins("Content-Type: text/html") && begins("Content-Type: Text/CSS;x=y"));
        assert!(!begins("Content-Type: text/plain") && !begins("X: y"));
        assert!(!begins("Content-Type: text/html\r\nContent-Encoding: gzip"));
        assert!(!begins("Content-Type: text/html\r\nContent-Length: 0"));
        let mut head =
            response("Content-Type: text/html\r\nContent-Length: 5\r\nETag: \"x\"\r\nLast-Modified: y");
        begin(&substitution, &head).unwrap().change_head(&mut head.fields);
        assert!(
            !head.fields.has(&CONTENT_LENGTH) && !head.fields.has(&ETAG) && !head.fields.has(&LAST_MODIFIED)
        );
    }

    #[test]
    fn output_that_grows_without_bound_ends_the_response() {
        let value = "x".repeat(100_000);
        let substitution = substitution(&[("a", &value)], false);
        let mut stream = begin(&substitution, &response("Content-Type: text/html")).unwrap();
        let written = stream.write("a".repeat(1000).as_bytes(), &mut |_| Ok::<_, FailureKind>(()));
        assert!(written.is_err());
    }

    proptest! {
        #[test]
        fn pieces_do_not_matter(text in "[ab]{0,40}", cuts in prop::collection::vec(any::<usize>(), 0..6)) {
            let all = substitution(&[("ab", "1"), ("bba", "2"), ("aab", "3")], false);
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut % (text.len() + 1)).collect();
            cuts.extend([0, text.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&str> = cuts.windows(2).map(|pair| &text[pair[0]..pair[1]]).collect();
            prop_assert_eq!(replaced(&all, &pieces), replaced(&all, &[&text]));
        }
    }
}
