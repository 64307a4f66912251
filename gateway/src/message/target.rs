//! The parts of a request target (RFC 9112 §3.2).

/// Returns the path of a target in origin form, and its query if there is one.
pub(crate) fn split(target: &str) -> (&str, Option<&str>) {
    match memchr::memchr(b'?', target.as_bytes()) {
        Some(mark) => (&target[..mark], Some(&target[mark + 1..])),
        None => (target, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_question_mark_ends_the_path() {
        for (target, parts) in [
            ("/a", ("/a", None)),
            ("/a?", ("/a", Some(""))),
            ("/a?b=c?d", ("/a", Some("b=c?d"))),
            ("*", ("*", None)),
        ] {
            assert_eq!(split(target), parts, "{target}");
        }
    }
}
