//! Path normalisation for matching.
//!
//! Rules are matched against the path as a backend would most likely interpret it, so that
//! `/a/%2e%2e/admin` cannot bypass a rule for `/admin`. The steps are those of nginx, in this
//! order: percent-decoding, merging of slashes, removal of dot segments (RFC 3986 section 5.2.4).
//! The normalised path is used for matching only; the endpoint receives the client's path.

use std::borrow::Cow;

/// Reason for the rejection of a path. The response is 400, as in nginx.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// The path is not absolute.
    #[error("the path does not begin with a slash")]
    NotAbsolute,
    /// A percent sign is not followed by two hexadecimal digits (RFC 3986 section 2.1).
    #[error("the path has a percent sign that is not followed by two hexadecimal digits")]
    Encoding,
    /// The path contains a NUL byte, encoded or not.
    #[error("the path contains a NUL byte")]
    Nul,
    /// The path has more `..` than segments to leave.
    #[error("the path climbs above the root with `..`")]
    AboveRoot,
}

/// Normalises the path of a request target, without its query. Borrows if nothing changes.
///
/// Invalid UTF-8 after decoding is replaced by U+FFFD; such a path still matches the prefixes
/// above it.
///
/// # Errors
/// The path is not absolute, leads above the root, or has an invalid escape or a NUL byte.
pub fn normalise(path: &str) -> Result<Cow<'_, str>, PathError> {
    match normal_bytes(path)? {
        Cow::Borrowed(_) => Ok(Cow::Borrowed(path)),
        Cow::Owned(resolved) => Ok(Cow::Owned(match String::from_utf8(resolved) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        })),
    }
}

/// Same as [`normalise`], but returns bytes, which need not be UTF-8.
///
/// # Errors
/// Those of [`normalise`].
pub fn normal_bytes(path: &str) -> Result<Cow<'_, [u8]>, PathError> {
    let bytes = path.as_bytes();
    if bytes.first() != Some(&b'/') {
        return Err(PathError::NotAbsolute);
    }
    if is_normal(bytes) {
        return Ok(Cow::Borrowed(bytes));
    }
    resolve(&decode(bytes)?).map(Cow::Owned)
}

/// Returns whether an absolute path has no escapes, no empty segment inside, and no dot segment.
fn is_normal(path: &[u8]) -> bool {
    let is_normal_at = |(at, byte): (usize, &u8)| match byte {
        b'%' | 0 => false,
        b'/' => !matches!(
            &path[at + 1..],
            [b'/', ..] | [b'.'] | [b'.', b'/', ..] | [b'.', b'.'] | [b'.', b'.', b'/', ..]
        ),
        _ => true,
    };
    path.iter().enumerate().all(is_normal_at)
}

fn decode(path: &[u8]) -> Result<Vec<u8>, PathError> {
    let mut decoded = Vec::with_capacity(path.len());
    let mut rest = path;
    while let [first, tail @ ..] = rest {
        let byte;
        (byte, rest) = match (first, tail) {
            (b'%', [high, low, tail @ ..]) => (hex(*high)? << 4 | hex(*low)?, tail),
            (b'%', _) => return Err(PathError::Encoding),
            (plain, tail) => (*plain, tail),
        };
        if byte == 0 {
            return Err(PathError::Nul);
        }
        decoded.push(byte);
    }
    Ok(decoded)
}

/// Returns the value of a hexadecimal digit.
pub(super) fn hex(digit: u8) -> Result<u8, PathError> {
    match digit {
        b'0'..=b'9' => Ok(digit - b'0'),
        b'a'..=b'f' => Ok(digit - b'a' + 10),
        b'A'..=b'F' => Ok(digit - b'A' + 10),
        _ => Err(PathError::Encoding),
    }
}

/// Merges slashes and removes dot segments. Both `path` and the result start with a slash; if
/// `path` ends with a slash or a dot segment, the result ends with a slash.
fn resolve(path: &[u8]) -> Result<Vec<u8>, PathError> {
    let mut out = Vec::with_capacity(path.len());
    let mut ends_in_directory = true;
    for segment in path.split(|byte| *byte == b'/').skip(1) {
        ends_in_directory = matches!(segment, b"" | b"." | b"..");
        match segment {
            b"" | b"." => {}
            b".." => {
                let parent = out.iter().rposition(|byte| *byte == b'/').ok_or(PathError::AboveRoot)?;
                out.truncate(parent);
            }
            name => {
                out.push(b'/');
                out.extend_from_slice(name);
            }
        }
    }
    if ends_in_directory {
        out.push(b'/');
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn paths_are_resolved_as_nginx_does_it() {
        for (path, normal) in [
            ("/", "/"),
            ("/foo", "/foo"),
            ("/foo/", "/foo/"),
            ("/.well-known/x", "/.well-known/x"),
            ("/a/..b/...", "/a/..b/..."),
            ("//a///b//", "/a/b/"),
            ("/a/./b", "/a/b"),
            ("/a/.", "/a/"),
            ("/a/b/..", "/a/"),
            ("/a/b/../c", "/a/c"),
            ("/a/../..b", "/..b"),
            ("/a//../b", "/b"),
            ("/a%20b", "/a b"),
            ("/%61%2Fb", "/a/b"),
            ("/a/%2e%2E/admin", "/admin"),
            ("/a%2f..%2fadmin", "/admin"),
            ("/%25%32%65", "/%2e"),
            ("/caf%C3%A9", "/caf\u{e9}"),
            ("/a/%ff", "/a/\u{fffd}"),
            ("/a/..", "/"),
        ] {
            assert_eq!(normalise(path).as_deref(), Ok(normal), "{path}");
        }
    }

    #[test]
    fn paths_that_nginx_refuses_are_refused() {
        for (path, error) in [
            ("", PathError::NotAbsolute),
            ("*", PathError::NotAbsolute),
            ("foo", PathError::NotAbsolute),
            ("/%", PathError::Encoding),
            ("/%2", PathError::Encoding),
            ("/%zz", PathError::Encoding),
            ("/%+1", PathError::Encoding),
            ("/a%00", PathError::Nul),
            ("/a\0", PathError::Nul),
            ("/..", PathError::AboveRoot),
            ("/../a", PathError::AboveRoot),
            ("/a/../../b", PathError::AboveRoot),
            ("/a/%2e%2e/%2e%2e", PathError::AboveRoot),
        ] {
            assert_eq!(normalise(path), Err(error), "{path:?}");
        }
    }

    /// A second implementation: on strings, with a stack of segments.
    fn by_stack(path: &str) -> Option<String> {
        let mut stack = Vec::new();
        let mut last = "";
        for segment in path.split('/').skip(1) {
            last = segment;
            match segment {
                "" | "." => {}
                ".." => drop(stack.pop()?),
                name => stack.push(name),
            }
        }
        let slash = if stack.is_empty() || matches!(last, "" | "." | "..") { "/" } else { "" };
        Some(stack.iter().flat_map(|name| ["/", name]).chain([slash]).collect())
    }

    proptest! {
        #[test]
        fn resolving_agrees_with_a_stack_and_its_result_is_normal(path in "(/(\\.|\\.\\.|a|bb|\\.a|))+") {
            match normalise(&path) {
                Ok(normal) => {
                    prop_assert_eq!(Some(normal.to_string()), by_stack(&path));
                    prop_assert!(is_normal(normal.as_bytes()));
                    prop_assert_eq!(normal == path, matches!(normal, Cow::Borrowed(_)));
                }
                Err(error) => {
                    prop_assert_eq!(error, PathError::AboveRoot);
                    prop_assert_eq!(by_stack(&path), None);
                }
            }
        }

        #[test]
        fn encoding_any_byte_changes_nothing(path in "(/[a-z.]{0,3}){1,6}z", at in any::<prop::sample::Index>()) {
            let at = at.index(path.len() - 1) + 1;
            let encoded = format!("{}%{:02x}{}", &path[..at], path.as_bytes()[at], &path[at + 1..]);
            prop_assert_eq!(normalise(&encoded), normalise(&path));
        }

        #[test]
        fn anything_is_handled(path in "/[ -~]*") {
            let _ = normalise(&path);
        }
    }
}
