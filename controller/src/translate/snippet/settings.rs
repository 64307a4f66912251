//! Directives that have an annotation of the same meaning: they become the same settings.
//!
//! ingress-nginx's template sets most of them in each location, and nginx refuses a duplicate; here
//! the snippet replaces the template's value. In a server the template's value of each location
//! would win, so they have no effect there.

use sluice_config::{
    CookieFlags, CookieName, HeaderBuffers, Override, Policies, Replacement, Replacements,
    ResponseBufferingOverrides, SameSite, Satisfy,
};

use super::arguments::{parse, parsed, put, word};
use super::context::{DirectiveContext, SnippetContext};
use super::endpoint_tls::EndpointTlsOverrides;
use super::fault::Fault;
use super::timeouts::{self, TimeoutOverrides};
use crate::translate::expression;
use crate::translate::replacement;
use crate::translate::value::{self, Type};

/// Settings of policies; `None` leaves that of the annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct SettingOverrides {
    timeouts: TimeoutOverrides,
    body_limit: Option<u64>,
    body_memory: Option<u64>,
    request_buffering: Option<bool>,
    response_buffering: ResponseBufferingOverrides,
    http_1_0: Option<bool>,
    rate: Option<u64>,
    rate_after: Option<u64>,
    unlogged: Option<bool>,
    satisfy: Option<Satisfy>,
    cookie_domain: Option<Override<Replacement>>,
    cookie_path: Option<Override<Replacement>>,
    cookie_flags: Option<Override<Vec<CookieFlags>>>,
    endpoint_tls: EndpointTlsOverrides,
}

/// Whether a directive is one of these.
pub(super) fn is_known(name: &str) -> bool {
    matches!(
        name,
        "client_max_body_size"
            | "client_body_buffer_size"
            | "proxy_request_buffering"
            | "proxy_buffering"
            | "proxy_buffers"
            | "proxy_buffer_size"
            | "proxy_busy_buffers_size"
            | "proxy_max_temp_file_size"
            | "proxy_http_version"
            | "limit_rate"
            | "limit_rate_after"
            | "access_log"
            | "satisfy"
            | "proxy_cookie_domain"
            | "proxy_cookie_path"
            | "proxy_cookie_flags"
            | "proxy_cache"
    ) || timeouts::is_known(name)
        || name.starts_with("proxy_ssl_")
        || idle(name, &[]).is_some()
}

/// Why a directive changes nothing here; `None` if it does.
fn idle(name: &str, arguments: &[String]) -> Option<&'static str> {
    Some(match name {
        "proxy_temp_file_write_size" => "the size is chosen by the program",
        "grpc_buffer_size" => "responses of gRPC are relayed as they arrive",
        "proxy_ignore_headers" | "grpc_ignore_headers" => "the gateway acts on none of these fields",
        "proxy_headers_hash_max_size" | "proxy_headers_hash_bucket_size" => "it is about the memory of nginx",
        "proxy_cache_bypass" | "proxy_no_cache" => "the cache of nginx is not used; see sluice.dev/cache",
        "proxy_cache" if arguments == ["off"] => "the cache of nginx is not used",
        _ => return None,
    })
}

/// Reads one of these directives. Returns the translation in words.
pub(super) fn read(
    name: &str,
    arguments: &[String],
    context: DirectiveContext,
    settings: &mut SettingOverrides,
) -> Result<String, Fault> {
    if context.in_if {
        return Err(context.not_translated());
    }
    if let Some(reason) = idle(name, arguments) {
        return Ok(format!("no effect: {reason}"));
    }
    match context.place {
        SnippetContext::Location => {}
        SnippetContext::Server
            if matches!(
                name,
                "limit_rate" | "limit_rate_after" | "proxy_cookie_flags" | "proxy_busy_buffers_size"
            ) => {}
        SnippetContext::Server
            if !matches!(name, "satisfy" | "access_log" | "client_body_buffer_size")
                && !name.starts_with("proxy_ssl_") =>
        {
            return Ok("no effect, as in ingress-nginx: each location has a value of its own".to_owned());
        }
        SnippetContext::Server | SnippetContext::Block | SnippetContext::Authorisation => {
            return Err(context.not_translated());
        }
    }
    let text = arguments.join(" ");
    if name.starts_with("proxy_ssl_") {
        return match settings.endpoint_tls.read(name, arguments)? {
            Some(true) => Ok(format!("sets {} to {text}", annotation(name))),
            Some(false) => Err("it stands twice".into()),
            None => {
                Ok("no effect on what is sent: sessions are resumed where the endpoint permits it".to_owned())
            }
        };
    }
    let of_timeout = settings.timeouts.read(name, arguments)?;
    let is_new = match name {
        _ if let Some(is_new) = of_timeout => is_new,
        "client_max_body_size" => put(&mut settings.body_limit, parsed(&value::size(), arguments)?),
        "client_body_buffer_size" => put(&mut settings.body_memory, parsed(&value::size(), arguments)?),
        "proxy_request_buffering" => {
            put(&mut settings.request_buffering, word(arguments, &[("on", true), ("off", false)])?)
        }
        "proxy_buffering" => {
            put(&mut settings.response_buffering.enabled, word(arguments, &[("on", true), ("off", false)])?)
        }
        "proxy_buffers" => {
            let HeaderBuffers { count, size } = parsed(&value::buffers(), &[arguments.join(" ")])?;
            // The size of the head's buffer, which has a directive of its own, has no effect.
            settings.response_buffering.buffer_size = Some(size as u64);
            put(&mut settings.response_buffering.buffers, count as u64)
        }
        "proxy_buffer_size" => {
            let size = parsed(&value::size(), arguments)?;
            settings.response_buffering.buffer_size.get_or_insert(size);
            true
        }
        "proxy_busy_buffers_size" => {
            put(&mut settings.response_buffering.busy, parsed(&value::size(), arguments)?)
        }
        "proxy_max_temp_file_size" => {
            put(&mut settings.response_buffering.disk, parsed(&value::size(), arguments)?)
        }
        "proxy_http_version" => {
            put(&mut settings.http_1_0, word(arguments, &[("1.0", true), ("1.1", false)])?)
        }
        "proxy_cookie_flags" => return cookie_flags(arguments, &mut settings.cookie_flags),
        "proxy_cache" => return Err("takes off; caches are not translated".into()),
        "limit_rate" => put(&mut settings.rate, parsed(&value::size(), arguments)?),
        "limit_rate_after" => put(&mut settings.rate_after, parsed(&value::size(), arguments)?),
        "access_log" => put(&mut settings.unlogged, word(arguments, &[("off", true)])?),
        "satisfy" => {
            put(&mut settings.satisfy, word(arguments, &[("all", Satisfy::All), ("any", Satisfy::Any)])?)
        }
        "proxy_cookie_domain" => {
            put(&mut settings.cookie_domain, replaced(&replacement::cookie_domain(), arguments)?)
        }
        _ => put(&mut settings.cookie_path, replaced(&replacement::cookie_path(), arguments)?),
    };
    match is_new {
        true => Ok(format!("sets {} to {text}", annotation(name))),
        false => Err("it stands twice".into()),
    }
}

/// The annotation of the same meaning.
fn annotation(name: &str) -> String {
    match name {
        "client_max_body_size" => "proxy-body-size".to_owned(),
        "access_log" => "enable-access-log".to_owned(),
        "proxy_buffers" => "proxy-buffers-number".to_owned(),
        name => name.replacen("grpc_", "proxy_", 1).replace('_', "-"),
    }
}

/// `off`, or what is replaced and by what. Each word is quoted again for the parser of the
/// annotation.
fn replaced(
    kind: &Type<Override<Replacement>>,
    arguments: &[String],
) -> Result<Override<Replacement>, Fault> {
    match arguments {
        [off] if off == "off" => Ok(Override::Off),
        [from, to] if !from.contains('"') && !to.contains('"') => {
            parse(kind, &format!("\"{from}\" \"{to}\""))
        }
        _ => Err("takes off, or what is replaced and by what".into()),
    }
}

/// Changes the replacements of the policies.
fn replacements(policies: &mut Policies, change: impl FnOnce(&mut Replacements)) {
    let mut all = policies.replacements.as_deref().cloned().unwrap_or_default();
    change(&mut all);
    policies.replacements = Some(all.into());
}

/// `off`, or a cookie and its flags. The first directive that names a cookie counts.
fn cookie_flags(
    arguments: &[String],
    known: &mut Option<Override<Vec<CookieFlags>>>,
) -> Result<String, Fault> {
    if let [off] = arguments {
        return match (&**off, known.replace(Override::Off)) {
            ("off", None) => Ok("leaves the attributes of cookies as they are".to_owned()),
            ("off", Some(_)) => Err("it is a duplicate, which nginx refuses".into()),
            _ => Err("takes off, or a cookie and its flags".into()),
        };
    }
    let [cookie, flags @ ..] = arguments else { return Err("takes off, or a cookie and its flags".into()) };
    let entry = cookie_entry(cookie, flags)?;
    match known.get_or_insert_with(|| Override::To(Vec::new())) {
        Override::To(entries) => entries.push(entry),
        Override::Off | Override::Inherit => return Err("it is a duplicate, which nginx refuses".into()),
    }
    Ok(format!("sets the attributes of the cookies {cookie}: {}", flags.join(", ")))
}

fn cookie_entry(cookie: &str, flags: &[String]) -> Result<CookieFlags, Fault> {
    if cookie.contains('$') && !cookie.starts_with('~') || flags.iter().any(|flag| flag.contains('$')) {
        return Err("variables are not translated".into());
    }
    let cookie = match cookie.strip_prefix('~') {
        Some(pattern) => {
            let pattern = format!("(?i){pattern}");
            expression::compile(&pattern)
                .map_err(|reason| format!("the expression {pattern:?} cannot be read ({reason})"))?;
            CookieName::Regex(pattern.into())
        }
        None => CookieName::Text(cookie.into()),
    };
    let mut entry = CookieFlags { cookie, secure: None, http_only: None, same_site: None };
    for flag in flags {
        match &*flag.to_ascii_lowercase() {
            "secure" => entry.secure = Some(true),
            "nosecure" => entry.secure = Some(false),
            "httponly" => entry.http_only = Some(true),
            "nohttponly" => entry.http_only = Some(false),
            "samesite=strict" => entry.same_site = Some(Some(SameSite::Strict)),
            "samesite=lax" => entry.same_site = Some(Some(SameSite::Lax)),
            "samesite=none" => entry.same_site = Some(Some(SameSite::None)),
            "nosamesite" => entry.same_site = Some(None),
            _ => return Err(format!("{flag:?} is not a flag of cookies").into()),
        }
    }
    Ok(entry)
}

impl SettingOverrides {
    /// Takes over the settings of a text of the same level that are not set yet.
    pub(super) fn extend(&mut self, other: &Self) {
        let Self {
            timeouts,
            body_limit,
            body_memory,
            request_buffering,
            response_buffering,
            http_1_0,
            rate,
            rate_after,
            unlogged,
            satisfy,
            cookie_domain,
            cookie_path,
            cookie_flags,
            endpoint_tls,
        } = other;
        self.endpoint_tls.extend(endpoint_tls);
        self.timeouts.extend(timeouts);
        self.body_limit = self.body_limit.or(*body_limit);
        self.body_memory = self.body_memory.or(*body_memory);
        self.request_buffering = self.request_buffering.or(*request_buffering);
        self.response_buffering = self.response_buffering.or(response_buffering);
        self.http_1_0 = self.http_1_0.or(*http_1_0);
        self.rate = self.rate.or(*rate);
        self.rate_after = self.rate_after.or(*rate_after);
        self.unlogged = self.unlogged.or(*unlogged);
        self.satisfy = self.satisfy.or(*satisfy);
        self.cookie_domain = self.cookie_domain.take().or_else(|| cookie_domain.clone());
        self.cookie_path = self.cookie_path.take().or_else(|| cookie_path.clone());
        self.cookie_flags = self.cookie_flags.take().or_else(|| cookie_flags.clone());
    }

    /// Sets what is inherited from a server: the template sets it in a location only if an
    /// annotation asks for it.
    pub(super) fn apply_server(&self, policies: &mut Policies) {
        let bodies = &mut policies.bodies;
        bodies.rate = bodies.rate.or(self.rate);
        bodies.rate_after = bodies.rate_after.or(self.rate_after);
        if let Some(busy) = self.response_buffering.busy {
            bodies.response_buffering.get_or_insert_default().busy.get_or_insert(busy);
        }
        let own = policies.replacements.as_ref().map(|own| &own.cookie_flags);
        if let Some(flags) = &self.cookie_flags
            && own.is_none_or(|own| *own == Override::Inherit)
        {
            replacements(policies, |all| all.cookie_flags = flags.clone());
        }
    }

    /// Replaces the settings of the policies.
    pub(super) fn apply(&self, passes_grpc: bool, policies: &mut Policies) {
        self.endpoint_tls.apply(policies);
        self.timeouts.apply(passes_grpc, policies);
        let bodies = &mut policies.bodies;
        bodies.limit = self.body_limit.or(bodies.limit);
        bodies.memory = self.body_memory.or(bodies.memory);
        bodies.request_buffering = self.request_buffering.or(bodies.request_buffering);
        if self.response_buffering != ResponseBufferingOverrides::default() {
            let buffering = bodies.response_buffering.get_or_insert_default();
            **buffering = self.response_buffering.or(buffering);
        }
        bodies.rate = self.rate.or(bodies.rate);
        bodies.rate_after = self.rate_after.or(bodies.rate_after);
        policies.http_1_0 = self.http_1_0.or(policies.http_1_0);
        policies.unlogged = self.unlogged.unwrap_or(policies.unlogged);
        policies.satisfy = self.satisfy.unwrap_or(policies.satisfy);
        if let Some(domain) = &self.cookie_domain {
            replacements(policies, |all| all.cookie_domain = domain.clone());
        }
        if let Some(path) = &self.cookie_path {
            replacements(policies, |all| all.cookie_path = path.clone());
        }
        if let Some(flags) = &self.cookie_flags {
            replacements(policies, |all| all.cookie_flags = flags.clone());
        }
    }
}
