//! `proxy-cookie-domain`, `proxy-cookie-path`, `proxy-redirect-from` and `-to`: replacements in the
//! cookies and redirects of endpoints, as in nginx.
//!
//! A plain string is compared with the whole domain, case-insensitively, or with the start of a
//! path or URL. A regular expression is searched in the text; if it matches, the whole text is
//! replaced.

use http::header::{HeaderName, HeaderValue, LOCATION, REFRESH, SET_COOKIE};
use regex::bytes::{Captures, Regex, RegexBuilder};
use sluice_config::Override;

use super::cookie_flags::CookieFlags;
use super::error::PolicyError;
use super::template::{Template, TemplateContext};
use crate::message::edit::{Edit, EditableName, HeadMut};
use crate::message::fields::Fields;

static SET_COOKIE_NAME: EditableName = EditableName::from_static("set-cookie");
static LOCATION_NAME: EditableName = EditableName::from_static("location");
static REFRESH_NAME: EditableName = EditableName::from_static("refresh");

/// Maximum size of a compiled expression in bytes.
const SIZE_LIMIT: usize = 1 << 20;

/// The replacements of a rule, or the global ones.
#[derive(Clone, Debug, Default)]
pub struct Replacements {
    cookie_domain: Override<Replacement>,
    cookie_path: Override<Replacement>,
    redirect_from: Override<Pattern>,
    redirect_to: Override<Template>,
    cookie_flags: Override<CookieFlags>,
}

#[derive(Clone, Debug)]
struct Replacement {
    from: Pattern,
    to: Template,
}

#[derive(Clone, Debug)]
enum Pattern {
    Text(Template),
    Regex(Regex),
}

/// The replacements for the responses to one request.
#[derive(Clone, Copy, Debug)]
pub struct InForce<'r> {
    own: &'r Replacements,
    of_all: &'r Replacements,
}

/// How a plain string is compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Compared {
    /// With the whole value, case-insensitively.
    Whole,
    /// With the start of the value.
    Beginning,
}

impl Replacements {
    /// Replaces nothing.
    pub const NONE: Self = Self {
        cookie_domain: Override::Inherit,
        cookie_path: Override::Inherit,
        redirect_from: Override::Inherit,
        redirect_to: Override::Inherit,
        cookie_flags: Override::Inherit,
    };

    /// Compiles the replacements. Returns `None` if there are none.
    ///
    /// # Errors
    /// An expression or a template is invalid.
    pub fn compile(replacements: &sluice_config::Replacements) -> Result<Option<Self>, PolicyError> {
        if *replacements == sluice_config::Replacements::default() {
            return Ok(None);
        }
        let sluice_config::Replacements {
            cookie_domain,
            cookie_path,
            redirect_from,
            redirect_to,
            cookie_flags,
        } = replacements;
        Ok(Some(Self {
            cookie_domain: cookie_domain.try_map(Replacement::compile)?,
            cookie_path: cookie_path.try_map(Replacement::compile)?,
            redirect_from: redirect_from.try_map(Pattern::compile)?,
            redirect_to: redirect_to.try_map(Template::compile)?,
            cookie_flags: cookie_flags.try_map(|flags| CookieFlags::compile(flags))?,
        }))
    }

    /// Returns whether a replacement depends on the request.
    pub fn has_variables(&self) -> bool {
        let replacements = [&self.cookie_domain, &self.cookie_path];
        let mut replacements = replacements.into_iter().filter_map(Override::value);
        replacements.any(|one| one.from.has_variables() || one.to.has_variables())
            || self.redirect_from.value().is_some_and(Pattern::has_variables)
            || self.redirect_to.value().is_some_and(Template::has_variables)
    }

    /// Returns the replacements with their values for one request.
    pub fn fill(&self, context: &TemplateContext<'_>) -> Self {
        let replacement = |one: &Override<Replacement>| {
            let fill =
                |one: &Replacement| Replacement { from: one.from.fill(context), to: one.to.resolve(context) };
            map(one, fill)
        };
        Self {
            cookie_domain: replacement(&self.cookie_domain),
            cookie_path: replacement(&self.cookie_path),
            redirect_from: map(&self.redirect_from, |from| from.fill(context)),
            redirect_to: map(&self.redirect_to, |to| to.resolve(context)),
            cookie_flags: self.cookie_flags.clone(),
        }
    }
}

fn map<T, U>(of: &Override<T>, make: impl FnOnce(&T) -> U) -> Override<U> {
    match of {
        Override::Inherit => Override::Inherit,
        Override::Off => Override::Off,
        Override::To(value) => Override::To(make(value)),
    }
}

impl Replacement {
    fn compile(replacement: &sluice_config::Replacement) -> Result<Self, PolicyError> {
        let sluice_config::Replacement { from, to } = replacement;
        Ok(Self { from: Pattern::compile(from)?, to: Template::compile(to)? })
    }
}

impl Pattern {
    fn compile(pattern: &sluice_config::Pattern) -> Result<Self, PolicyError> {
        Ok(match pattern {
            sluice_config::Pattern::Text(text) => Self::Text(Template::compile(text)?),
            sluice_config::Pattern::Regex(regex) => {
                let compiled = RegexBuilder::new(regex).size_limit(SIZE_LIMIT).build();
                Self::Regex(compiled.map_err(|_| PolicyError::Expression(regex.to_string()))?)
            }
        })
    }

    fn has_variables(&self) -> bool {
        matches!(self, Self::Text(text) if text.has_variables())
    }

    fn fill(&self, context: &TemplateContext<'_>) -> Self {
        match self {
            Self::Text(text) => Self::Text(text.resolve(context)),
            Self::Regex(regex) => Self::Regex(regex.clone()),
        }
    }

    /// Returns the replaced text; `None` if `text` does not match.
    fn replace(&self, text: &[u8], to: &Template, compared: Compared) -> Option<Vec<u8>> {
        match self {
            Self::Text(from) => {
                let from = from.text();
                let rest = match compared {
                    Compared::Whole => from.eq_ignore_ascii_case(text).then_some(&b""[..]),
                    Compared::Beginning => text.strip_prefix(&*from),
                }?;
                Some([&*to.text(), rest].concat())
            }
            Self::Regex(regex) => {
                let found = regex.captures(text)?;
                Some(to.with_groups(|group| group_of(&found, group).unwrap_or_default()))
            }
        }
    }
}

fn group_of<'t>(found: &Captures<'t>, group: &str) -> Option<&'t [u8]> {
    let group = match group.parse() {
        Ok(number) => found.get(number),
        Err(_) => found.name(group),
    };
    group.map(|group| group.as_bytes())
}

impl<'r> InForce<'r> {
    /// Combines the replacements of a rule with those of all rules; the rule's take precedence.
    pub fn new(own: &'r Replacements, of_all: &'r Replacements) -> Self {
        Self { own, of_all }
    }

    /// Edits the head of an endpoint's response. `absolute` converts a path into a URL, if
    /// redirects must be absolute. As in nginx, it is only applied to a path that a replacement
    /// inserted.
    pub fn response(&self, head: &mut Edit<'_, impl HeadMut>, absolute: impl FnOnce(&str) -> Option<String>) {
        let Self { own, of_all } = self;
        let domain = own.cookie_domain.or(&of_all.cookie_domain);
        let path = own.cookie_path.or(&of_all.cookie_path);
        let flags = own.cookie_flags.or(&of_all.cookie_flags);
        let changes = CookieChanges { domain, path, flags };
        if (domain.is_some() || path.is_some() || flags.is_some()) && head.fields().has(&SET_COOKIE) {
            cookies(head, &changes);
        }
        let from = own.redirect_from.or(&of_all.redirect_from);
        let Some((from, to)) = from.zip(own.redirect_to.or(&of_all.redirect_to)) else { return };
        if let Some(location) = head.fields().first(&LOCATION)
            && let Some(mut new) = from.replace(location, to, Compared::Beginning)
        {
            if new.starts_with(b"/")
                && let Some(url) = std::str::from_utf8(&new).ok().and_then(absolute)
            {
                new = url.into_bytes();
            }
            set(head, &LOCATION_NAME, new);
        }
        let refreshed = head.fields().first(&REFRESH).and_then(|refresh| {
            let at = refresh.to_ascii_lowercase().windows(4).position(|four| four == b"url=")? + 4;
            let new = from.replace(&refresh[at..], to, Compared::Beginning)?;
            Some([&refresh[..at], &new].concat())
        });
        if let Some(new) = refreshed {
            set(head, &REFRESH_NAME, new);
        }
    }
}

/// Leaves the field unchanged if `value` is not a valid field value.
fn set(head: &mut Edit<'_, impl HeadMut>, name: &EditableName, value: Vec<u8>) {
    if let Ok(value) = HeaderValue::try_from(value) {
        head.set(name, &value);
    }
}

fn cookies(head: &mut Edit<'_, impl HeadMut>, changes: &CookieChanges<'_>) {
    let mut changed = false;
    let name: &HeaderName = &SET_COOKIE;
    let all = head.fields().lines(name).map(|cookie| {
        let new = changes.apply(cookie).and_then(|new| HeaderValue::try_from(new).ok());
        changed |= new.is_some();
        new.or_else(|| HeaderValue::from_bytes(cookie).ok())
    });
    let all: Vec<_> = all.collect();
    if changed {
        head.remove(&SET_COOKIE_NAME);
        for cookie in all.iter().flatten() {
            head.append(&SET_COOKIE_NAME, cookie);
        }
    }
}

/// The changes of cookies that are in force.
struct CookieChanges<'r> {
    domain: Option<&'r Replacement>,
    path: Option<&'r Replacement>,
    flags: Option<&'r CookieFlags>,
}

impl CookieChanges<'_> {
    /// Returns the changed cookie; `None` if nothing changes.
    fn apply(&self, cookie: &[u8]) -> Option<Vec<u8>> {
        let new = rewritten(cookie, self.domain, self.path);
        let flagged = self.flags.and_then(|flags| flags.change(new.as_deref().unwrap_or(cookie)));
        flagged.or(new)
    }
}

/// Returns the cookie with replaced attributes; `None` if nothing changes.
fn rewritten(cookie: &[u8], domain: Option<&Replacement>, path: Option<&Replacement>) -> Option<Vec<u8>> {
    let mut parts = cookie.split(|byte| *byte == b';');
    let mut out = parts.next()?.to_vec();
    let mut changed = false;
    for part in parts {
        out.push(b';');
        let new = attribute(part, b"domain", domain, Compared::Whole)
            .or_else(|| attribute(part, b"path", path, Compared::Beginning));
        changed |= new.is_some();
        out.extend_from_slice(new.as_deref().unwrap_or(part));
    }
    changed.then_some(out)
}

/// Returns the attribute `name` with its value replaced; `None` if it is not this attribute.
fn attribute(
    part: &[u8],
    name: &[u8],
    replacement: Option<&Replacement>,
    compared: Compared,
) -> Option<Vec<u8>> {
    let Replacement { from, to } = replacement?;
    let equals = part.iter().position(|byte| *byte == b'=')?;
    if !part[..equals].trim_ascii().eq_ignore_ascii_case(name) {
        return None;
    }
    let mut value = part[equals + 1..].trim_ascii_end();
    let mut kept = equals + 1;
    // A leading dot of a domain has no meaning (RFC 6265 §5.2.3) and is kept.
    if compared == Compared::Whole && value.first() == Some(&b'.') {
        (value, kept) = (&value[1..], kept + 1);
    }
    let new = from.replace(value, to, compared)?;
    Some([&part[..kept], &new].concat())
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use sluice_config::{TemplatePiece, Variable};

    use super::*;
    use crate::policy::template::tests::with_context;

    fn text(text: &str) -> sluice_config::Pattern {
        sluice_config::Pattern::Text(sluice_config::Template::plain(text))
    }

    fn regex(text: &str) -> sluice_config::Pattern {
        sluice_config::Pattern::Regex(text.into())
    }

    fn pair(from: sluice_config::Pattern, to: &[TemplatePiece]) -> Override<sluice_config::Replacement> {
        Override::To(sluice_config::Replacement { from, to: sluice_config::Template { pieces: to.into() } })
    }

    fn piece(text: &str) -> TemplatePiece {
        TemplatePiece::Text(text.into())
    }

    fn group(name: &str) -> TemplatePiece {
        TemplatePiece::Variable(Variable::Group(name.into()))
    }

    fn changed(own: sluice_config::Replacements, name: &'static str, values: &[&'static str]) -> Vec<String> {
        let own = Replacements::compile(&own).unwrap().unwrap();
        let mut head = HeaderMap::new();
        for value in values {
            head.append(name, HeaderValue::from_static(value));
        }
        let absolute = |path: &str| Some(["https://a.example", path].concat());
        InForce::new(&own, &Replacements::NONE).response(&mut Edit::new(&mut head), absolute);
        head.get_all(name).iter().map(|value| value.to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn domains_are_compared_whole_and_paths_from_their_beginning() {
        let own = || sluice_config::Replacements {
            cookie_domain: pair(text("inner.example"), &[piece("shop.example")]),
            cookie_path: pair(text("/app/"), &[piece("/")]),
            ..Default::default()
        };
        let cookies = [
            "a=Path=/app/; Domain=Inner.Example; path=/app/x ;Secure",
            "b=1; DOMAIN=.inner.example; Path=/other",
            "c=1; Domain=x.inner.example",
            "d=1; Path=/app/",
        ];
        assert_eq!(
            changed(own(), "set-cookie", &cookies),
            [
                "a=Path=/app/; Domain=shop.example; path=/x;Secure",
                "b=1; DOMAIN=.shop.example; Path=/other",
                "c=1; Domain=x.inner.example",
                "d=1; Path=/"
            ]
        );
    }

    #[test]
    fn where_an_expression_is_found_the_whole_text_gives_way() {
        let own = sluice_config::Replacements {
            cookie_path: pair(regex("^/([a-z]+)/(?<rest>.*)"), &[piece("/"), group("rest"), group("1")]),
            cookie_domain: pair(regex("(?i)inner"), &[piece("shop.example")]),
            ..Default::default()
        };
        let cookies = ["a=1; Path=/app/x; Domain=INNER.example", "b=1; Path=/9"];
        assert_eq!(
            changed(own, "set-cookie", &cookies),
            ["a=1; Path=/xapp; Domain=shop.example", "b=1; Path=/9"]
        );
    }

    #[test]
    fn redirects_begin_with_something_else() {
        let own = |to: &str| sluice_config::Replacements {
            redirect_from: Override::To(text("http://inner/")),
            redirect_to: Override::To(sluice_config::Template::plain(to)),
            ..Default::default()
        };
        assert_eq!(
            changed(own("https://shop.example/"), "location", &["http://inner/a?b"]),
            ["https://shop.example/a?b"]
        );
        assert_eq!(changed(own("/x/"), "location", &["http://inner/a"]), ["https://a.example/x/a"]);
        assert_eq!(changed(own("/x/"), "location", &["/a"]), ["/a"], "what stays is not made absolute");
        assert_eq!(changed(own("/x/"), "location", &["https://inner/a"]), ["https://inner/a"]);
        assert_eq!(changed(own("/x/"), "refresh", &["5; URL=http://inner/a"]), ["5; URL=/x/a"]);
    }

    #[test]
    fn rule_settings_take_precedence_over_global_ones() {
        let of_all = sluice_config::Replacements {
            redirect_from: Override::To(text("http://inner/")),
            redirect_to: Override::To(sluice_config::Template::plain("http://all/")),
            ..Default::default()
        };
        let of_all = Replacements::compile(&of_all).unwrap().unwrap();
        for (redirect_to, expected) in [
            (Override::Inherit, "http://all/a"),
            (Override::Off, "http://inner/a"),
            (Override::To(sluice_config::Template::plain("http://own/")), "http://own/a"),
        ] {
            let own = sluice_config::Replacements { redirect_to, ..Default::default() };
            let own = Replacements::compile(&own).unwrap().unwrap_or_default();
            let mut head = HeaderMap::new();
            head.insert(LOCATION, HeaderValue::from_static("http://inner/a"));
            InForce::new(&own, &of_all).response(&mut Edit::new(&mut head), |_| None);
            assert_eq!(head[LOCATION], expected);
        }
    }

    #[test]
    fn variables_are_filled_in_and_groups_stay() {
        let own = sluice_config::Replacements {
            redirect_from: Override::To(sluice_config::Pattern::Text(sluice_config::Template {
                pieces: vec![piece("http://"), TemplatePiece::Variable(Variable::Host), piece("/")],
            })),
            redirect_to: Override::To(sluice_config::Template {
                pieces: vec![TemplatePiece::Variable(Variable::Scheme), piece("://new/"), group("1")],
            }),
            ..Default::default()
        };
        let own = Replacements::compile(&own).unwrap().unwrap();
        assert!(own.has_variables());
        let mut head = HeaderMap::new();
        head.insert(LOCATION, HeaderValue::from_static("http://shop.example/a"));
        with_context(|context| {
            let filled = own.fill(context);
            assert!(!filled.has_variables());
            InForce::new(&filled, &Replacements::NONE).response(&mut Edit::new(&mut head), |_| None);
        });
        assert_eq!(head[LOCATION], "https://new/a");
    }
}
