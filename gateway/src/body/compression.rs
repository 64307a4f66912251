//! Which responses are compressed, and how their heads change. The rules are nginx's, except that
//! `no-transform` (RFC 9111 §5.2.2.6) and the client's weights are respected.

use std::fmt;

use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, HeaderValue, TRAILER,
    TRANSFER_ENCODING, USER_AGENT, VARY,
};
use http::{StatusCode, Version};
use regex::bytes::{Regex, RegexBuilder};
use sluice_config::{Compression, GlobalSettings};

use super::coding::{Accepted, Coding};
use crate::message::fields::{Fields, FieldsMut};
use crate::message::framing::Framing;
use crate::message::response::Response;

/// Maximum size of the compiled pattern of `gzip-disable`, in bytes.
const SIZE_LIMIT: usize = 1 << 20;

/// The compiled global settings for compression.
pub(crate) struct CompressionRules {
    /// One per coding, in the order of [`Coding::ALL`]. `None` if the coding is switched off.
    codings: [Option<Rule>; 3],
    no_gzip_for: Option<Regex>,
}

/// The conditions for the use of one coding.
#[derive(Debug)]
struct Rule {
    level: u8,
    min_length: u64,
    any_type: bool,
    types: Box<[Box<[u8]>]>,
}

/// The content encodings that one client accepts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientEncodings {
    accepted: Accepted,
    no_gzip: bool,
}

/// The decision for one response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompressionChoice {
    /// Sent unchanged to every client.
    Never,
    /// Sent unchanged, but another client could receive it compressed.
    NotHere,
    /// Compressed with this coding at this level.
    Compress(Coding, u8),
}

impl CompressionRules {
    /// Returns `None` if no coding is enabled.
    pub(crate) fn compile(settings: &GlobalSettings) -> Option<Self> {
        let rule = |settings: &Compression| settings.enabled.then(|| Rule::new(settings));
        let codings = [rule(&settings.zstd), rule(&settings.brotli), rule(&settings.gzip)];
        let pattern = &*settings.gzip_disable;
        // Translation has already validated the pattern. If it does not compile here, `gzip` is
        // used for more clients than configured.
        let no_gzip_for = match pattern {
            "" => None,
            pattern => RegexBuilder::new(pattern).size_limit(SIZE_LIMIT).build().ok(),
        };
        codings.iter().any(Option::is_some).then_some(Self { codings, no_gzip_for })
    }

    /// Returns the codings that the client of this request accepts. HTTP/1.0 gets none: it could
    /// not distinguish the end of a body of unknown length from a broken connection.
    pub(crate) fn wanted(&self, version: Version, head: &impl Fields) -> ClientEncodings {
        let accepted = match version {
            Version::HTTP_09 | Version::HTTP_10 => Accepted::default(),
            _ => Accepted::read(head),
        };
        let agent = || head.first(&USER_AGENT).unwrap_or_default();
        ClientEncodings {
            accepted,
            no_gzip: self.no_gzip_for.as_ref().is_some_and(|pattern| pattern.is_match(agent())),
        }
    }

    /// Decides whether a response with this head, which describes this body, is compressed.
    pub(crate) fn choose(
        &self,
        wanted: ClientEncodings,
        response: &Response,
        body: Framing,
    ) -> CompressionChoice {
        let fields = &response.fields;
        let status =
            matches!(response.status, StatusCode::OK | StatusCode::FORBIDDEN | StatusCode::NOT_FOUND);
        if !status || body.is_done() || fields.has(&CONTENT_ENCODING) || fields.has(&TRAILER) {
            return CompressionChoice::Never;
        }
        let Some(media_type) = fields.first(&CONTENT_TYPE).map(media_type) else {
            return CompressionChoice::Never;
        };
        if is_grpc(&media_type) || fields.has_token(&CACHE_CONTROL, b"no-transform") {
            return CompressionChoice::Never;
        }
        let length = match body {
            Framing::Length(length) => Some(length),
            _ => None,
        };
        let rule = |coding: Coding| self.codings[coding as usize].as_ref();
        let fits = |coding| rule(coding).is_some_and(|rule| rule.takes(&media_type, length));
        if !Coding::ALL.into_iter().any(fits) {
            return CompressionChoice::Never;
        }
        let can = |coding| fits(coding) && !(wanted.no_gzip && coding == Coding::Gzip);
        match wanted.accepted.best(can).and_then(|coding| Some((coding, rule(coding)?.level))) {
            Some((coding, level)) => CompressionChoice::Compress(coding, level),
            None => CompressionChoice::NotHere,
        }
    }
}

impl Rule {
    fn new(settings: &Compression) -> Self {
        Self {
            level: settings.level,
            min_length: settings.min_length,
            any_type: settings.types.iter().any(|name| &**name == "*"),
            types: settings.types.iter().map(|name| name.as_bytes().into()).collect(),
        }
    }

    fn takes(&self, media_type: &[u8], length: Option<u64>) -> bool {
        let typed = self.any_type
            || media_type == b"text/html"
            || self.types.iter().any(|name| **name == *media_type);
        typed && length.is_none_or(|length| length >= self.min_length)
    }
}

/// Adds `Accept-Encoding` to `Vary` (RFC 9110 §12.5.5).
pub(crate) fn vary(fields: &mut impl FieldsMut) {
    if !fields.has_token(&VARY, b"accept-encoding") && !fields.has_token(&VARY, b"*") {
        fields.append(&VARY, &HeaderValue::from_static("Accept-Encoding"));
    }
}

/// Changes the head to that of a compressed body: its length is unknown and it has no ranges.
pub(crate) fn set_content_coding(fields: &mut impl FieldsMut, coding: Coding) {
    for name in [&CONTENT_LENGTH, &TRANSFER_ENCODING, &ACCEPT_RANGES] {
        fields.remove(name);
    }
    fields.set(&CONTENT_ENCODING, &HeaderValue::from_static(coding.name()));
    weaken_tag(fields);
}

/// Makes a strong `ETag` a weak one: the new form is semantically equal but not byte for byte
/// (RFC 9110 §8.8.3).
pub(crate) fn weaken_tag(fields: &mut impl FieldsMut) {
    let strong = fields.first(&ETAG).filter(|tag| tag.starts_with(b"\""));
    let weak = strong.and_then(|tag| HeaderValue::from_bytes(&[b"W/", tag].concat()).ok());
    if let Some(weak) = weak {
        fields.set(&ETAG, &weak);
    }
}

/// Returns a media type in lower case, without parameters.
pub(crate) fn media_type(value: &[u8]) -> Vec<u8> {
    let end = value.iter().position(|byte| *byte == b';').unwrap_or(value.len());
    value[..end].trim_ascii().to_ascii_lowercase()
}

/// Returns whether a media type is that of gRPC, which compresses single messages itself.
pub(crate) fn is_grpc(media_type: &[u8]) -> bool {
    media_type.len() >= 16 && media_type[..16].eq_ignore_ascii_case(b"application/grpc")
}

impl fmt::Debug for CompressionRules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CompressionRules").field("codings", &self.codings).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, Method};

    use super::*;

    fn rules(change: impl FnOnce(&mut GlobalSettings)) -> CompressionRules {
        let mut settings = GlobalSettings::default();
        settings.gzip.enabled = true;
        change(&mut settings);
        CompressionRules::compile(&settings).unwrap()
    }

    fn wanted(rules: &CompressionRules, accepted: &'static str) -> ClientEncodings {
        let mut head = HeaderMap::new();
        head.insert("accept-encoding", HeaderValue::from_static(accepted));
        head.insert("user-agent", HeaderValue::from_static("Mozilla/4.0 (compatible; MSIE 6.0)"));
        rules.wanted(Version::HTTP_11, &head)
    }

    fn response(fields: &str) -> Response {
        let mut response = Response::default();
        response.read(format!("HTTP/1.1 {fields}\r\n\r\n").as_bytes(), &Method::GET).unwrap().unwrap();
        response
    }

    fn choose(rules: &CompressionRules, accepted: &'static str, head: &str) -> CompressionChoice {
        let response = response(head);
        rules.choose(wanted(rules, accepted), &response, response.framing)
    }

    #[test]
    fn eligible_responses_are_compressed() {
        use CompressionChoice::{Compress, Never, NotHere};
        let gzip = Compress(Coding::Gzip, 1);
        let rules = rules(|_| ());
        for (head, expected) in [
            ("200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: 256", gzip),
            ("200 OK\r\nContent-Type: text/plain\r\nContent-Length: 255", Never),
            ("200 OK\r\nContent-Type: Text/HTML\r\nTransfer-Encoding: chunked", gzip),
            ("404 Not Found\r\nContent-Type: application/json", gzip),
            ("403 Forbidden\r\nContent-Type: application/json", gzip),
            ("201 Created\r\nContent-Type: application/json", Never),
            ("206 Partial Content\r\nContent-Type: text/plain\r\nContent-Length: 1000", Never),
            ("304 Not Modified\r\nContent-Type: text/plain\r\nContent-Length: 1000", Never),
            ("204 No Content\r\nContent-Type: text/plain", Never),
            ("200 OK\r\nContent-Type: image/png\r\nContent-Length: 1000", Never),
            ("200 OK\r\nContent-Length: 1000", Never),
            ("200 OK\r\nContent-Type: text/plain\r\nContent-Encoding: br", Never),
            ("200 OK\r\nContent-Type: text/plain\r\nCache-Control: max-age=5, No-Transform", Never),
            ("200 OK\r\nContent-Type: text/plain\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked", Never),
            ("200 OK\r\nContent-Type: text/plain\r\nContent-Length: 0", Never),
        ] {
            assert_eq!(choose(&rules, "gzip", head), expected, "{head}");
            let other = if expected == Never { Never } else { NotHere };
            assert_eq!(choose(&rules, "br, zstd", head), other, "{head}");
        }
    }

    #[test]
    fn each_coding_has_its_own_rules() {
        let rules = rules(|settings| {
            settings.brotli.enabled = true;
            settings.brotli.types = vec!["*".into()];
            settings.zstd.enabled = true;
            settings.zstd.min_length = 10_000;
            settings.gzip_disable = r"MSIE [4-6]\.".into();
        });
        let choose = |accepted, head: &str| choose(&rules, accepted, head);
        let short = "200 OK\r\nContent-Type: text/plain\r\nContent-Length: 300";
        let long = "200 OK\r\nContent-Type: text/plain\r\nContent-Length: 30000";
        let picture = "200 OK\r\nContent-Type: image/png\r\nContent-Length: 30000";
        assert_eq!(choose("zstd, br", short), CompressionChoice::Compress(Coding::Brotli, 4));
        assert_eq!(choose("zstd, br", long), CompressionChoice::Compress(Coding::Zstd, 3));
        assert_eq!(choose("zstd;q=0.5, br", long), CompressionChoice::Compress(Coding::Brotli, 4));
        assert_eq!(choose("zstd, br", picture), CompressionChoice::Compress(Coding::Brotli, 4));
        assert_eq!(choose("zstd", picture), CompressionChoice::NotHere);
        assert_eq!(choose("gzip", long), CompressionChoice::NotHere, "the User-Agent gets none");
        assert_eq!(choose("br", "200 OK\r\nContent-Type: application/grpc+proto"), CompressionChoice::Never);
        assert!(CompressionRules::compile(&GlobalSettings::default()).is_none());
    }

    #[test]
    fn an_old_client_gets_no_coding() {
        let rules = rules(|_| ());
        let mut head = HeaderMap::new();
        head.insert("accept-encoding", HeaderValue::from_static("gzip"));
        let page = response("200 OK\r\nContent-Type: text/html");
        let choose = |version| rules.choose(rules.wanted(version, &head), &page, page.framing);
        assert_eq!(choose(Version::HTTP_10), CompressionChoice::NotHere);
        assert_eq!(choose(Version::HTTP_2), CompressionChoice::Compress(Coding::Gzip, 1));
    }

    #[test]
    fn the_head_describes_the_compressed_body() {
        let mut fields = HeaderMap::new();
        for (name, value) in [
            ("content-length", "1000"),
            ("accept-ranges", "bytes"),
            ("etag", "\"v1\""),
            ("vary", "Origin"),
            ("last-modified", "yesterday"),
        ] {
            fields.insert(name, HeaderValue::from_static(value));
        }
        vary(&mut fields);
        vary(&mut fields);
        set_content_coding(&mut fields, Coding::Brotli);
        assert_eq!(fields.get_all("vary").iter().collect::<Vec<_>>(), ["Origin", "Accept-Encoding"]);
        assert_eq!(fields["content-encoding"], "br");
        assert_eq!(fields["etag"], "W/\"v1\"");
        assert!(!fields.contains_key("content-length") && !fields.contains_key("accept-ranges"));
        assert!(fields.contains_key("last-modified"));
        set_content_coding(&mut fields, Coding::Gzip);
        assert_eq!(fields["etag"], "W/\"v1\"", "a weak one stays");
        fields.insert("vary", HeaderValue::from_static("*"));
        vary(&mut fields);
        assert_eq!(fields.get_all("vary").iter().count(), 1);
    }
}
