//! Targets that `http` refuses, although HTTP/1.1, nginx and endpoints accept them.
//!
//! `http` refuses `<`, `>` and backquotes in a path, and `"`, `<` and `>` in a query, so `h2` would
//! reset the stream. Queries of Prometheus and Loki, and JSON, contain these characters. Such a
//! target is therefore escaped before `h2` reads it (`downstream/http2/hpack.rs`), and restored
//! when the head is converted.
//!
//! An escaped target is as long as the original, because its length counts in the dynamic table
//! (RFC 7541 §4.1). It begins with `?`, which no valid target does: `http` then takes all of it for
//! a query, which may contain backquotes. Each other refused character is joined with its neighbour
//! to one character that is as long as both, or to two if the neighbour is an emoji.

use std::iter;

use http::uri::PathAndQuery;

use crate::message::edit::is_path;

/// First character of an escaped target.
const MARK: char = '?';
/// The characters that `http` refuses in a query.
const REFUSED: [char; 3] = ['"', '<', '>'];

/// A block of characters that stand for a refused character and a neighbour: one block of `count`
/// characters for each of [`REFUSED`].
#[derive(Clone, Copy)]
struct Joint {
    /// The first character of the block.
    start: u32,
    /// The first possible neighbour.
    first: u32,
    /// Number of possible neighbours.
    count: u32,
    /// The neighbour follows the refused character, which is the first one of the path.
    follows: bool,
}

/// Joined characters have one byte more in UTF-8 than their neighbours. Targets that contain them
/// unencoded cannot be escaped, so they are rare ones: from the end of Arabic to NKo, private use,
/// unassigned, phonetic symbols, and an extension of CJK.
const JOINTS: [Joint; 5] = [
    Joint { start: 0x6e6, first: 0x21, count: 94, follows: false },
    Joint { start: 0xe000, first: 0x80, count: 0x780, follows: false },
    Joint { start: 0x4_0000, first: 0x800, count: 0xf800, follows: false },
    Joint { start: 0x250, first: 0x21, count: 94, follows: true },
    // The neighbour may be joined with its own neighbour, as in `/<b>`.
    Joint { start: 0x3400, first: 0x80, count: 0x780, follows: true },
];

/// The first of the four marks before a character that stands for a refused one and a neighbour of
/// plane 1, which has four bytes: emoji and historic scripts. The marks are control characters of
/// two bytes, which no text contains.
const MARK_OF_PLANE: u32 = 0x80;
/// Number of marks.
const MARKS_OF_PLANE: u32 = 4;
/// The first character behind a mark.
const BEHIND_MARK: u32 = 0x1000;
/// Number of characters behind a mark. All marks together have as many as the neighbours of the
/// refused characters.
const PER_MARK: u32 = PLANE * REFUSED.len() as u32 / MARKS_OF_PLANE;
/// The first character of plane 1, and the number of characters of a plane.
const PLANE: u32 = 0x1_0000;

/// Returns the escaped form of a target that `http` refuses, or `None` for any other text. A target
/// that cannot be escaped becomes one of the same length that is refused with a response.
pub(crate) fn escape(target: &str) -> Option<String> {
    if !is_path(target) || PathAndQuery::try_from(target).is_ok() {
        return None;
    }
    let escaped = join_all(target).filter(|escaped| split_all(escaped).as_deref() == Some(target));
    Some(escaped.unwrap_or_else(|| invalid(target)))
}

/// Returns the target with this escaped form, or `None` if the text is not an escaped form.
pub(crate) fn unescape(escaped: &str) -> Option<String> {
    split_all(escaped).filter(|target| escape(target).as_deref() == Some(escaped))
}

/// Returns a target of the same length that is neither valid nor an escaped form.
pub(crate) fn invalid(target: &str) -> String {
    iter::repeat_n(MARK, target.len()).collect()
}

fn join_all(target: &str) -> Option<String> {
    let mut rest = target.strip_prefix('/')?.chars();
    let mut backwards = Vec::with_capacity(target.len());
    while let Some(character) = rest.next_back() {
        let joined = match REFUSED.iter().position(|refused| *refused == character) {
            None => character,
            Some(refused) => match rest.next_back() {
                Some(neighbour) if let Some([mark, joined]) = join_of_plane(refused, neighbour) => {
                    backwards.push(joined);
                    mark
                }
                Some(neighbour) => join(refused, neighbour, false)?,
                None => join(refused, backwards.pop()?, true)?,
            },
        };
        backwards.push(joined);
    }
    Some(iter::once(MARK).chain(backwards.into_iter().rev()).collect())
}

fn split_all(escaped: &str) -> Option<String> {
    let mut characters = escaped.strip_prefix(MARK)?.chars();
    let mut target = String::with_capacity(escaped.len());
    target.push('/');
    while let Some(character) = characters.next() {
        match u32::from(character).wrapping_sub(MARK_OF_PLANE) {
            mark @ 0..MARKS_OF_PLANE => target.extend(split_of_plane(mark, characters.next()?)?),
            _ => split(character, &mut target)?,
        }
    }
    Some(target)
}

/// Adds the characters that a character stands for, which are at most four.
fn split(character: char, target: &mut String) -> Option<()> {
    let code = u32::from(character);
    let has_code =
        |joint: &&Joint| (joint.start..joint.start + joint.count * REFUSED.len() as u32).contains(&code);
    let Some(joint) = JOINTS.iter().find(has_code) else {
        target.push(character);
        return Some(());
    };
    let neighbour = char::from_u32(joint.first + (code - joint.start) % joint.count)?;
    let refused = REFUSED[((code - joint.start) / joint.count) as usize];
    if joint.follows {
        target.push(refused);
        return split(neighbour, target);
    }
    split(neighbour, target)?;
    target.push(refused);
    Some(())
}

/// Returns the character that stands for a refused one, by its index, and its neighbour.
fn join(refused: usize, neighbour: char, follows: bool) -> Option<char> {
    let neighbour = u32::from(neighbour);
    let joint = JOINTS.iter().find(|joint| {
        joint.follows == follows && (joint.first..joint.first + joint.count).contains(&neighbour)
    })?;
    char::from_u32(joint.start + refused as u32 * joint.count + neighbour - joint.first)
}

/// Returns the mark and the character that stand for a refused character, by its index, and its
/// neighbour of plane 1.
fn join_of_plane(refused: usize, neighbour: char) -> Option<[char; 2]> {
    let place = u32::from(neighbour).checked_sub(PLANE).filter(|place| *place < PLANE)?;
    let place = refused as u32 * PLANE + place;
    let mark = char::from_u32(MARK_OF_PLANE + place / PER_MARK)?;
    Some([mark, char::from_u32(BEHIND_MARK + place % PER_MARK)?])
}

/// Returns the neighbour and the refused character that a mark, by its index, and a character stand
/// for.
fn split_of_plane(mark: u32, character: char) -> Option<[char; 2]> {
    let place = u32::from(character).checked_sub(BEHIND_MARK).filter(|place| *place < PER_MARK)?;
    let place = mark * PER_MARK + place;
    Some([char::from_u32(PLANE + place % PLANE)?, REFUSED[(place / PLANE) as usize]])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Escapes a target, checks the result and returns whether it can be restored.
    fn round_trips(target: &str) -> bool {
        let escaped = escape(target).expect("a target that is refused");
        assert_eq!(escaped.len(), target.len(), "{target}");
        assert_eq!(PathAndQuery::try_from(&*escaped).unwrap().as_str(), escaped, "{target}");
        assert!(!is_path(&escaped) && escape(&escaped).is_none());
        match unescape(&escaped) {
            Some(restored) => {
                assert_eq!(restored, target);
                true
            }
            None => {
                assert!(escaped.bytes().all(|byte| byte == b'?'), "{escaped}");
                false
            }
        }
    }

    #[test]
    fn targets_that_http_refuses_are_restored() {
        for target in [
            "/api?query=up{job=\"a\"}",
            "/?q=\"",
            "/?\"\"\"",
            "/?\"<>\">",
            "/?q=\"\u{e4}\"&r=\"\u{4e2d}\"<\u{4e2d}>",
            "/<b>",
            "/\"\"\"?\"",
            "/\"a\"?\"b\"",
            "/<\u{e4}<>",
            "/`",
            "/a`b?c`d",
            // An emoji before a quote was refused with 400.
            "/?\u{1f600}\"",
            "/?a=\"\u{1f600}\"\u{1ffff}<\u{4e2d}\u{10000}>",
            "/?\u{1f600}\"\"\u{1f600}",
        ] {
            assert!(round_trips(target), "{target}");
        }
        for refused in ["/?\u{20000}\"", "/<", "/?\u{e000}\"", "/<\u{e4}>", "/<\u{1f600}\"", "/?\u{80}a\""] {
            assert!(!round_trips(refused), "{refused}");
        }
    }

    #[test]
    fn other_texts_are_left_alone() {
        for text in ["/", "*", "", "/a?b='c'{}|^", "/\"{}\"", "a?\"", "/a?\"#", "/a?\" b", "?\"", "/\u{700}"]
        {
            assert_eq!((escape(text), unescape(text)), (None, None), "{text}");
        }
        // Only the one escaped form of a target is restored.
        for text in [
            "?\u{80}",
            "?\u{81}a",
            "?\u{82}\u{4f60}",
            "?\u{83}\u{cfff}",
            "?\u{4f60}\u{80}",
            "?",
            "?a",
            "?/`",
            "?a?\u{700}",
            "??????",
            "?\u{6e6}",
            "?\u{250}",
            "?\u{4d800}",
        ] {
            let is_form = unescape(text).is_some_and(|target| escape(&target).as_deref() == Some(text));
            assert_eq!(unescape(text).is_some(), is_form, "{text}");
        }
        assert_eq!((unescape("?a"), unescape("??????")), (None, None));
    }

    proptest! {
        #[test]
        fn every_target_of_ascii_is_restored(rest in "[a-z{}=\"<>`?&/]{2,12}") {
            let target = format!("/{rest}");
            let is_refused = PathAndQuery::try_from(&*target).is_err();
            prop_assert_eq!(escape(&target).is_some(), is_refused);
            prop_assert!(!is_refused || round_trips(&target));
        }

        #[test]
        fn no_two_targets_have_the_same_escaped_form(escaped in "\\?[a\"<>\u{80}-\u{84}\u{1000}-\u{1010}\u{250}-\u{36f}\u{3400}-\u{4a80}\u{6e6}-\u{7ff}\u{e000}-\u{f8ff}\u{40000}-\u{6e800}]{0,6}") {
            if let Some(target) = unescape(&escaped) {
                prop_assert_eq!(escape(&target), Some(escaped));
            }
        }
    }
}
