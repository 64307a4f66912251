//! Redirects that are decided before a backend is chosen, and the form of their Location.

use sluice_config::{Moment, NamespacedName, Redirect, RedirectPath};

use super::{Annotation, Settings};
use crate::translate::setting::{ReferenceTreatment, Risk, Unreadable};
use crate::translate::template;
use crate::translate::value::{self, Type};

/// Parsed annotations of this family.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redirection {
    permanent: Option<RedirectPath>,
    permanent_code: Option<u16>,
    temporal: Option<RedirectPath>,
    /// `temporal-redirect` is not an http or https URL, and is ignored.
    ignores_temporal: bool,
    temporal_code: Option<u16>,
    /// `from-to-www-redirect`.
    pub(super) www: bool,
}

impl Redirection {
    /// Returns the redirect of all paths; the temporal one takes precedence.
    fn everywhere(self) -> Option<Redirect> {
        let Self { permanent, permanent_code, temporal, temporal_code, .. } = self;
        let (status, path) = match temporal {
            Some(path) => (temporal_code.unwrap_or(302), path),
            None => (permanent_code.unwrap_or(301), permanent?),
        };
        Some(Redirect { status, scheme: None, host: None, port: None, path })
    }

    /// Returns the annotation that is left out, and the reason.
    fn left_out(&self) -> Option<(&'static str, String)> {
        let reason = "must be a URL of http or https; it is ignored, as in ingress-nginx, and the Ingress is served \
                      without it";
        self.ignores_temporal.then(|| (TEMPORAL, reason.to_owned()))
    }
}

const TEMPORAL: &str = "temporal-redirect";

/// Computes the redirect.
pub(super) fn finish(settings: &mut Settings, _: &NamespacedName) {
    settings.left_out.extend(settings.redirection.left_out());
    settings.routes.redirect = settings.redirection.clone().everywhere();
}

pub(super) fn settings() -> Vec<Annotation> {
    vec![
        Annotation::served(
            "permanent-redirect",
            target(),
            "",
            "Redirect (301) all paths to this URL, or path of the same host. Another text is sent as it is, as in \
             ingress-nginx.",
            |settings, value| settings.redirection.permanent = Some(value),
        )
        .unreadable(Unreadable::Reject, ReferenceTreatment::Reject, "")
        .location(Risk::Medium),
        Annotation::served(
            "permanent-redirect-code",
            code(&[300, 301, 302, 303, 307, 308]),
            "301",
            "Code of permanent-redirect.",
            |settings, value| settings.redirection.permanent_code = Some(value),
        )
        .unreadable(Unreadable::Default, ReferenceTreatment::Reject, "the target is the same")
        .location(Risk::Low),
        Annotation::served(
            TEMPORAL,
            temporal_target(),
            "",
            "Redirect (302) all paths to this URL; takes precedence over permanent-redirect. A value with \
             another scheme or none, such as /new, is ignored with a warning.",
            |settings, value| {
                settings.redirection.ignores_temporal = value.is_none();
                settings.redirection.temporal = value;
            },
        )
        .unreadable(Unreadable::Reject, ReferenceTreatment::Reject, "")
        .location(Risk::Medium),
        Annotation::served(
            "temporal-redirect-code",
            code(&[300, 301, 302, 303, 307]),
            "302",
            "Code of temporal-redirect.",
            |settings, value| settings.redirection.temporal_code = Some(value),
        )
        .unreadable(Unreadable::Default, ReferenceTreatment::Reject, "the target is the same")
        .location(Risk::Low),
        Annotation::served(
            "from-to-www-redirect",
            value::bool(),
            "false",
            "Redirect between the host and its www. name, from the one without rules to the other, with \
             http-redirect-code and without a trailing slash. The port is that of the socket, or with \
             use-forwarded-headers X-Forwarded-Port of a trusted proxy. For https, the certificate must be \
             valid for both names.",
            |settings, value| settings.redirection.www = value,
        )
        .unreadable(Unreadable::Default, ReferenceTreatment::Reject, "only the other name is affected")
        .location(Risk::Low),
        Annotation::served(
            "preserve-trailing-slash",
            value::bool(),
            "false",
            "Keep the trailing slash in the redirect to https.",
            |settings, value| settings.policies.locations.trailing_slash = Some(value),
        )
        .location(Risk::Medium)
        .falls_back_to("preserve-trailing-slash"),
        Annotation::served(
            "relative-redirects",
            value::bool(),
            "false",
            "Redirects to a path of the same host (an appended trailing slash, a permanent-redirect to a \
             path) contain only the path.",
            |settings, value| settings.policies.locations.relative = Some(value),
        )
        .unreadable(Unreadable::Default, ReferenceTreatment::Reject, "the target is the same")
        .location(Risk::Low)
        .falls_back_to("relative-redirects"),
        Annotation::served(
            "use-port-in-redirects",
            value::bool(),
            "false",
            "Include the port in redirects unless it is the default one: that of https in the redirect to \
             https, that of the socket in redirects to a path of the same host.",
            |settings, value| settings.policies.locations.port = Some(value),
        )
        .location(Risk::Low)
        .falls_back_to("use-port-in-redirects"),
    ]
}

const TARGET: &str = "a URL or a path of letters, digits and - . _ ~ / : , ? & =";
const TEMPORAL_TARGET: &str = "a URL of http or https, of letters, digits and - . _ ~ / : , ? & =";

/// Where a redirect leads. The characters that ingress-nginx allows exclude variables, unless it
/// validates none.
fn target() -> Type<RedirectPath> {
    Type::new(TARGET, |text| read_target(text, TARGET)).allowing(is_allowed).evaluated_at(Moment::Request)
}

/// The target of a temporal redirect; `None` if ingress-nginx ignores it.
fn temporal_target() -> Type<Option<RedirectPath>> {
    let has_scheme = |text: &str| {
        let scheme = text.split_once(':').map_or("", |(scheme, _)| scheme);
        ["http", "https"].iter().any(|known| known.eq_ignore_ascii_case(scheme))
    };
    let read = move |text: &str| match has_scheme(text) {
        true => read_target(text, TEMPORAL_TARGET).map(Some),
        false => Ok(None),
    };
    Type::new(TEMPORAL_TARGET, read).allowing(is_allowed).evaluated_at(Moment::Request)
}

fn is_allowed(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~/:,?&=".contains(&b))
}

/// Reads a URL or a path, which may have variables. nginx sends any other text as it is.
fn read_target(text: &str, words: &str) -> Result<RedirectPath, String> {
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!("must be {words}"));
    }
    let rest = ["http://", "https://"].into_iter().find_map(|scheme| {
        let (start, rest) = text.split_at_checked(scheme.len())?;
        start.eq_ignore_ascii_case(scheme).then_some(rest)
    });
    let has_host = rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with(['/', '?', ':']));
    match text.contains('$') {
        false if has_host => Ok(RedirectPath::Url(text.into())),
        false if text.starts_with('/') => Ok(RedirectPath::Root(text.into())),
        _ => template::parse(text, Moment::Request).map(RedirectPath::UrlTemplate),
    }
}

/// A status that browsers follow: ingress-nginx sends no Location with the others that it accepts.
fn code(codes: &'static [u16]) -> Type<u16> {
    let words: Vec<String> = codes.iter().map(u16::to_string).collect();
    Type::of(format!("one of {}", words.join(", ")), |text| {
        text.trim().parse().ok().filter(|code| codes.contains(code))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::value::Author;

    #[test]
    fn a_redirect_leads_to_a_url_or_to_a_path() {
        let read = |text: &str| target().parse(text, &Author::OPERATOR).ok();
        let url = |text: &str| Some(RedirectPath::Url(text.into()));
        assert_eq!(read("https://shop.example/a?b=c"), url("https://shop.example/a?b=c"));
        assert_eq!(read("HTTP://shop.example:8080"), url("HTTP://shop.example:8080"));
        assert_eq!(read("/new"), Some(RedirectPath::Root("/new".into())));
        assert_eq!(read("//other.example"), Some(RedirectPath::Root("//other.example".into())));
        for text in ["shop.example", "ftp://a", "https://", "https:///a"] {
            let verbatim = RedirectPath::UrlTemplate(sluice_config::Template::plain(text));
            assert_eq!(read(text), Some(verbatim), "{text}");
        }
        for bad in ["https://a/$b", "/a b", "/a;b", "/a#b"] {
            assert_eq!(read(bad), None, "{bad}");
        }
        let lenient = Author { is_validated: false, ..Author::OPERATOR };
        assert_eq!(target().parse("https://a/%20#b", &lenient).ok(), url("https://a/%20#b"));
        let variables = target().parse("https://www.$host$request_uri", &lenient).ok();
        assert!(matches!(variables, Some(RedirectPath::UrlTemplate(url)) if url.pieces.len() == 3));
        assert_eq!(target().parse("https://a/$nothing", &lenient).ok(), None);
        let path = target().parse("/$uri", &lenient).ok();
        assert!(matches!(path, Some(RedirectPath::UrlTemplate(path)) if path.pieces.len() == 2));
    }

    #[test]
    fn a_temporal_redirect_without_http_is_ignored() {
        let read = |text: &str| temporal_target().parse(text, &Author::OPERATOR).ok();
        for ignored in ["/new", "new.example", "//new.example", "ftp://new.example"] {
            assert_eq!(read(ignored), Some(None), "{ignored}");
        }
        assert_eq!(read("https://a.example/b"), Some(Some(RedirectPath::Url("https://a.example/b".into()))));
        for bad in ["https://a/$b", "/a;b"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }

    #[test]
    fn the_temporal_redirect_wins_with_its_own_code() {
        let path = |text: &str| Some(RedirectPath::Root(text.into()));
        let both = Redirection {
            permanent: path("/p"),
            permanent_code: Some(308),
            temporal: path("/t"),
            temporal_code: None,
            ..Redirection::default()
        };
        let redirect = both.clone().everywhere().unwrap();
        assert_eq!((redirect.status, Some(redirect.path)), (302, path("/t")));
        let redirect = Redirection { temporal: None, ..both }.everywhere().unwrap();
        assert_eq!((redirect.status, Some(redirect.path)), (308, path("/p")));
        assert_eq!(Redirection { permanent_code: Some(308), ..Redirection::default() }.everywhere(), None);
    }
}
