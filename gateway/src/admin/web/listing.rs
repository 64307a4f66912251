//! Parameters of pages, and lists that are divided into pages.

use std::borrow::Cow;
use std::fmt::Write;

use crate::router::query_values;

/// Number of rows of a page.
pub(super) const ROWS: usize = 200;
/// Maximum length of a filter in bytes.
const FILTER: usize = 256;

/// The query of a page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameters<'q>(pub(super) &'q str);

/// A part of a list.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Listing {
    /// The filter; empty for none.
    pub(super) filter: String,
    /// Number of all rows that the filter selects.
    pub(super) total: usize,
    /// Number of the first row of this page, from 1; 0 if there is none.
    pub(super) first: usize,
    /// Number of the last row.
    pub(super) last: usize,
    /// The query of the previous page.
    pub(super) previous: Option<String>,
    /// The query of the next page.
    pub(super) next: Option<String>,
}

impl Parameters<'_> {
    /// Returns the value of a parameter; empty without one.
    pub(super) fn text(&self, name: &str) -> String {
        let value = query_values(self.0, name).next().unwrap_or(Cow::Borrowed(b""));
        String::from_utf8_lossy(&value).trim().to_owned()
    }

    /// Returns the value of a parameter as a number.
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.text(name).parse().ok()
    }

    /// Returns whether a parameter is present.
    pub(super) fn has(&self, name: &str) -> bool {
        query_values(self.0, name).next().is_some()
    }

    /// Returns the filter of the list, in lower case.
    pub(super) fn filter(&self) -> String {
        let mut filter = self.text("q");
        filter.truncate(filter.floor_char_boundary(FILTER));
        filter.to_lowercase()
    }

    /// Selects the rows of the current page. `kept` are the parameters that links to other pages
    /// keep.
    pub(super) fn page<T>(&self, rows: Vec<T>, kept: &[&str]) -> (Listing, Vec<T>) {
        let total = rows.len();
        let pages = total.div_ceil(ROWS).max(1);
        let number = self.number("page").and_then(|number| usize::try_from(number).ok()).unwrap_or(1);
        let page = number.clamp(1, pages);
        let first = (page - 1) * ROWS;
        let rows: Vec<T> = rows.into_iter().skip(first).take(ROWS).collect();
        let link = |page: usize| {
            let mut query = String::from("?");
            for name in ["q"].iter().chain(kept).filter(|name| self.has(name)) {
                let _ = write!(query, "{name}={}&", encoded(&self.text(name)));
            }
            format!("{query}page={page}")
        };
        let listing = Listing {
            filter: self.text("q"),
            total,
            first: if rows.is_empty() { 0 } else { first + 1 },
            last: first + rows.len(),
            previous: (page > 1).then(|| link(page - 1)),
            next: (page < pages).then(|| link(page + 1)),
        };
        (listing, rows)
    }
}

/// Returns whether a row with these texts passes the filter.
pub(super) fn passes(filter: &str, texts: &[&str]) -> bool {
    filter.is_empty() || texts.iter().any(|text| text.to_lowercase().contains(filter))
}

/// Encodes the value of a parameter (RFC 3986 §2.3).
pub(super) fn encoded(value: &str) -> String {
    value.bytes().fold(String::new(), |mut text, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' | b'/' => {
                text.push(byte.into())
            }
            _ => {
                let _ = write!(text, "%{byte:02X}");
            }
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_is_divided_and_links_keep_the_filter() {
        let rows = || (0..450).collect::<Vec<_>>();
        let (first, shown) = Parameters("q=a%26b&sort=p99").page(rows(), &["sort"]);
        assert_eq!((first.total, first.first, first.last, shown.len()), (450, 1, 200, ROWS));
        assert_eq!(first.previous, None);
        assert_eq!(first.next.as_deref(), Some("?q=a%26b&sort=p99&page=2"));
        let (last, shown) = Parameters("page=3").page(rows(), &["sort"]);
        assert_eq!((last.first, last.last, shown[0]), (401, 450, 400));
        assert_eq!((last.previous.as_deref(), last.next), (Some("?page=2"), None));
    }

    #[test]
    fn an_invalid_page_number_selects_an_existing_page() {
        for (query, first) in [("page=0", 1), ("page=-1", 1), ("page=x", 1), ("page=99", 1)] {
            assert_eq!(Parameters(query).page(vec![1, 2], &[]).0.first, first, "{query}");
        }
        let (none, rows) = Parameters("page=7").page(Vec::<u8>::new(), &[]);
        assert_eq!((none.total, none.first, none.last, rows.len()), (0, 0, 0, 0));
    }

    #[test]
    fn a_filter_finds_text_in_any_case() {
        let filter = Parameters("q=+Shop").filter();
        assert!(passes(&filter, &["/", "SHOP.example"]) && !passes(&filter, &["other"]));
        assert!(passes("", &[]));
        assert!(Parameters(&format!("q={}", "ä".repeat(4096))).filter().len() <= FILTER);
    }
}
