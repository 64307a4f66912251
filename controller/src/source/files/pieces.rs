//! Splitting of YAML text into pieces that are parsed separately: documents, and the items of a
//! list as printed by `kubectl get -o yaml`.
//!
//! A piece with unchanged text is not parsed again, and a broken piece does not affect the others.
//! Documents can be split by lines, because `---` at the start of a line is never content (YAML
//! 1.2.2 §9.1.2). Items can be split if the list is in block style. If an item turns out to be
//! unreadable, the parser parses the whole document instead, so a wrong split costs only time.

/// A part of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece<'a> {
    /// The text of the piece.
    pub(super) text: &'a str,
    /// Number of lines before it.
    pub(super) lines_before: usize,
    /// For an item, the column of its keys. The text includes its dash.
    pub(super) item: Option<usize>,
}

/// Returns the documents of a text, without empty ones.
pub(super) fn documents(text: &str) -> Vec<Piece<'_>> {
    let mut found = Vec::new();
    let (mut start, mut start_line) = (0, 0);
    for (number, at, line) in lines(text) {
        let marker = line.starts_with("---") || line.starts_with("...");
        if marker && line[3..].starts_with([' ', '\t', '\r', '\n']) || line == "---" || line == "..." {
            found.push(Piece { text: &text[start..at], lines_before: start_line, item: None });
            // The line of `---` may have content, that of `...` may not.
            let own = if line.starts_with("...") { line.len() } else { 0 };
            (start, start_line) = (at + own, number + usize::from(own > 0));
        }
    }
    found.push(Piece { text: &text[start..], lines_before: start_line, item: None });
    found.retain(|piece| !is_blank(piece.text));
    found
}

/// Returns the items of a document that is a list in block style, otherwise `None`.
pub(super) fn items<'a>(document: &Piece<'a>) -> Option<Vec<Piece<'a>>> {
    let text = document.text;
    let mut all = lines(text);
    all.find(|(_, _, line)| line.trim_end() == "items:")?;
    let mut dash = None;
    let mut starts: Vec<(usize, usize, usize)> = Vec::new();
    let mut end = text.len();
    for (number, at, line) in all {
        let content = line.trim_start_matches(' ');
        let indent = line.len() - content.len();
        if content.trim_end().is_empty() || content.starts_with('#') {
            continue;
        }
        let is_dash = content.starts_with("- ");
        let column = *dash.get_or_insert(indent);
        if indent == column && is_dash {
            let keys = content[1..].len() - content[1..].trim_start_matches(' ').len();
            starts.push((number, at, column + 1 + keys));
        } else if indent <= column {
            end = at;
            break;
        }
    }
    if starts.is_empty() {
        return None;
    }
    let ends = starts.iter().skip(1).map(|(_, at, _)| *at).chain([end]);
    let items = starts.iter().zip(ends).map(|(&(number, at, column), end)| Piece {
        text: &text[at..end],
        lines_before: document.lines_before + number,
        item: Some(column),
    });
    Some(items.collect())
}

impl<'a> Piece<'a> {
    /// Returns the value of a top-level key, if it is a plain scalar on the same line.
    pub(super) fn scalar(&self, key: &str) -> Option<&'a str> {
        let column = self.item.unwrap_or(0);
        lines(self.text).find_map(|(number, _, line)| {
            let at_key = match (number, self.item) {
                (0, Some(_)) => line.get(column..)?,
                _ => {
                    let rest = line.get(column..)?;
                    line[..column].bytes().all(|b| b == b' ').then_some(rest)?
                }
            };
            let value = at_key.strip_prefix(key)?.strip_prefix(':')?;
            let value = value.split(" #").next()?.trim();
            let value = value.trim_matches(['"', '\'']);
            (!value.is_empty() && !value.contains(['"', '\'', '&', '*', '|', '>', '{'])).then_some(value)
        })
    }
}

/// Returns the lines with their number from 0, their offset, and their terminator.
fn lines(text: &str) -> impl Iterator<Item = (usize, usize, &str)> {
    let mut at = 0;
    text.split_inclusive('\n').enumerate().map(move |(number, line)| {
        let start = at;
        at += line.len();
        (number, start, line)
    })
}

fn is_blank(text: &str) -> bool {
    text.lines().map(str::trim).all(|line| {
        line.is_empty() || line.starts_with('#') || line.starts_with('%') || line == "---" || line == "..."
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts<'a>(pieces: &[Piece<'a>]) -> Vec<(&'a str, usize)> {
        pieces.iter().map(|piece| (piece.text, piece.lines_before)).collect()
    }

    #[test]
    fn documents_end_at_markers_only() {
        let text = "# hello\n---\na: 1\nb: |\n  ---\n  x\n--- # two\nc: 3\n...\n---\n\n---x\n";
        assert_eq!(
            texts(&documents(text)),
            [("---\na: 1\nb: |\n  ---\n  x\n", 1), ("--- # two\nc: 3\n", 6), ("---\n\n---x\n", 9)]
        );
        assert_eq!(texts(&documents("a: 1\n---")), [("a: 1\n", 0)]);
        assert!(documents("").is_empty());
    }

    #[test]
    fn items_of_a_list_as_kubectl_prints_it() {
        let text = "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Secret\n  x:\n  - 1\n- kind: Service\nkind: List\n";
        let list = documents(text).remove(0);
        assert_eq!(list.scalar("kind"), Some("List"));
        let items = items(&list).unwrap();
        assert_eq!(
            texts(&items),
            [("- apiVersion: v1\n  kind: Secret\n  x:\n  - 1\n", 2), ("- kind: Service\n", 6)]
        );
        assert_eq!(items[0].scalar("kind"), Some("Secret"));
        assert_eq!(items[0].scalar("apiVersion"), Some("v1"));
        assert_eq!(items[1].scalar("kind"), Some("Service"));
    }

    #[test]
    fn items_that_are_indented() {
        let text = "kind: List\nitems:\n  # first\n  -   kind: A\n      b: 1\n\n  - kind: \"B\" # why\nmetadata: {}\n";
        let items = items(&documents(text).remove(0)).unwrap();
        assert_eq!(texts(&items), [("  -   kind: A\n      b: 1\n\n", 3), ("  - kind: \"B\" # why\n", 6)]);
        assert_eq!((items[0].scalar("kind"), items[1].scalar("kind")), (Some("A"), Some("B")));
        assert_eq!(super::items(&documents("items: []\nkind: List\n")[0]), None);
    }
}
