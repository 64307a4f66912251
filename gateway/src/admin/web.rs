//! Read-only web pages for people, under `/ui/` on the admin listener.
//!
//! Pages are plain HTML from templates that are compiled into the program, with one style sheet and
//! no script; the security policy forbids everything else. They are rendered on a separate thread,
//! and lists are divided into pages, so that neither 5,000 Ingresses nor a slow browser affects
//! requests. All links are relative, so a proxy may add a prefix.
//!
//! No page shows a key, a password, or the value of a field that carries credentials
//! ([`redaction`](sluice_config::redaction)). Pages only show state; forms are sent with GET.

mod certificates;
mod changes;
mod escape;
mod explanation;
mod hosts;
mod listing;
mod overview;
mod pools;
mod problems;
mod settings;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use askama::Template;
use http::StatusCode;
use http::header::{HeaderName, HeaderValue, LOCATION};

use super::format;
use super::pages::Document;
use super::traffic::RecentFigures;
use crate::state::State;
use crate::telemetry::ProcessStatus;
use listing::Parameters;

/// The path of all pages.
pub(super) const ROOT: &str = "/ui/";
const STYLE: &str = include_str!("web/style.css");

/// What a browser may do with a page: nothing but show it, with the style sheet, and send its forms
/// back.
static FIELDS: [(HeaderName, HeaderValue); 5] = [
    (
        HeaderName::from_static("content-security-policy"),
        HeaderValue::from_static(
            "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        ),
    ),
    (HeaderName::from_static("referrer-policy"), HeaderValue::from_static("no-referrer")),
    (HeaderName::from_static("cache-control"), HeaderValue::from_static("no-store")),
    (HeaderName::from_static("cross-origin-opener-policy"), HeaderValue::from_static("same-origin")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
];

/// Without the slash, relative links would lead elsewhere.
static REDIRECT: [(HeaderName, HeaderValue); 1] = [(LOCATION, HeaderValue::from_static(ROOT))];

/// The pages in the order of the navigation: name in the URL, and title.
const PAGES: [(&str, &str); 8] = [
    ("", "Overview"),
    ("hosts", "Hosts"),
    ("explain", "Explain"),
    ("pools", "Pools"),
    ("certificates", "Certificates"),
    ("problems", "Problems"),
    ("settings", "Settings"),
    ("changes", "Changes"),
];

/// Intervals in which a page may reload itself, in seconds.
const REFRESH: std::ops::RangeInclusive<u64> = 2..=3600;

/// The result of looking up a path.
pub(super) enum Finding {
    /// A document that is available at once.
    Document(Document),
    /// A page that must be rendered.
    Page,
}

/// The pages.
#[derive(Debug, Default)]
pub(super) struct Web {
    recent: RecentFigures,
}

/// What all pages have in common.
struct Frame {
    title: &'static str,
    status: ProcessStatus,
    /// Interval in seconds in which the page reloads itself.
    refresh: Option<u64>,
    /// The query without that interval.
    query: String,
}

/// The input of a page.
struct Input<'a> {
    state: &'a Arc<State>,
    recent: &'a RecentFigures,
    parameters: Parameters<'a>,
}

impl Web {
    /// Looks up a path; `None` if it is not one of a page.
    pub(super) fn find(path: &str) -> Option<Finding> {
        if path == ROOT.trim_end_matches('/') {
            let document = Document::text(StatusCode::PERMANENT_REDIRECT, format!("see {ROOT}\n"));
            return Some(Finding::Document(Document { fields: &REDIRECT, ..document }));
        }
        Some(match path.strip_prefix(ROOT)? {
            "style.css" => Finding::Document(document("text/css; charset=utf-8", STYLE.to_owned())),
            name if PAGES.iter().any(|(page, _)| *page == name) => Finding::Page,
            _ => return None,
        })
    }

    /// Renders a page.
    pub(super) fn make(&self, state: &Arc<State>, path: &str, query: &str) -> Document {
        let input = Input { state, recent: &self.recent, parameters: Parameters(query) };
        let name = path.strip_prefix(ROOT).unwrap_or_default();
        let title = PAGES.iter().find(|(page, _)| *page == name).map_or("", |(_, title)| title);
        let refresh = input.parameters.number("refresh").filter(|seconds| REFRESH.contains(seconds));
        let kept: Vec<_> = query.split('&').filter(|part| !part.starts_with("refresh=")).collect();
        let frame = Frame { title, status: state.telemetry.status(), refresh, query: kept.join("&") };
        let rendered = match name {
            "hosts" => hosts::page(&input, frame).render(),
            "explain" => explanation::page(&input, frame).render(),
            "pools" => pools::page(&input, frame).render(),
            "certificates" => certificates::page(&input, frame).render(),
            "problems" => problems::page(&input, frame).render(),
            "settings" => settings::page(&input, frame).render(),
            "changes" => changes::page(&input, frame).render(),
            _ => overview::page(&input, frame).render(),
        };
        match rendered {
            Ok(text) => document("text/html; charset=utf-8", text),
            Err(error) => Document::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
        }
    }
}

impl Frame {
    /// Returns the entries of the navigation: link, title, and whether it is this page.
    fn entries(&self) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        PAGES.into_iter().map(|(name, title)| {
            let link = if name.is_empty() { "./" } else { name };
            (link, title, title == self.title)
        })
    }

    /// Returns the name of this replica.
    fn replica(&self) -> String {
        let name = self.status.replica();
        if name.is_empty() { "this machine".to_owned() } else { name }
    }

    /// Returns whether the page may reload itself. An explanation has no reason to, and its query
    /// may contain credentials.
    fn may_reload(&self) -> bool {
        self.title != "Explain"
    }

    /// Returns the current date and time.
    fn now(&self) -> String {
        format::moment(SystemTime::now())
    }

    /// Returns how long the process has run.
    fn uptime(&self) -> Duration {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.saturating_sub(Duration::from_secs(u64::try_from(self.status.started).unwrap_or(0)))
    }
}

fn document(content_type: &'static str, text: String) -> Document {
    Document { status: StatusCode::OK, content_type, fields: &FIELDS, body: text.into() }
}
