//! Global settings in their compiled form, so that no request has to compile them.

use std::sync::Arc;

use http::HeaderValue;
use http::header::SERVER;
use sluice_config::{GlobalSettings, ResourceKey, TemplatePiece, Variable};

use crate::body::compression::CompressionRules;
use crate::message::edit::EditableName;
use crate::message::trailers::HiddenTrailers;
use crate::policy::access_log::LogRules;
use crate::policy::blocks::Blocks;
use crate::policy::forwarded::ForwardedRules;
use crate::policy::header_set::HeaderSet;
use crate::policy::networks::Networks;
use crate::policy::replacements::Replacements;
use crate::policy::resources::{ResourceSlot, Resources};
use crate::policy::template::Template;
use crate::policy::tracing::TraceRules;
use crate::policy::{ComputedVariables, ExternalAuth, Sources, hsts};
use crate::route::{Route, RouteBackend};

/// Global settings and the objects compiled from them.
#[derive(Debug)]
pub(crate) struct CompiledSettings {
    pub(crate) settings: Arc<GlobalSettings>,
    pub(crate) hsts: Option<HeaderValue>,
    pub(crate) compression: Option<Arc<CompressionRules>>,
    pub(crate) default_backend: Option<RouteBackend>,
    pub(crate) unmatched: UnmatchedRule,
    pub(crate) auth: GlobalAuth,
    pub(crate) blocks: Blocking,
    pub(crate) sources: Option<Sources>,
    /// Clients that may read the status page.
    pub(crate) status_readers: Networks,
    pub(crate) forwarded: ForwardedRules,
    pub(crate) limit_key: LimitKey,
    /// Variables that are looked up in tables.
    pub(crate) computed: ComputedVariables,
    pub(crate) log: LogRules,
    pub(crate) trace: TraceRules,
    /// Header fields; most installations configure none.
    pub(crate) headers: Option<Box<GlobalHeaders>>,
    /// Trailers of endpoints that clients do not see.
    pub(crate) hidden_trailers: HiddenTrailers,
}

/// Header fields for the heads of all rules.
#[derive(Debug, Default)]
pub(crate) struct GlobalHeaders {
    /// Whether endpoints get the client's path and query (`proxy-add-original-uri-header`).
    pub(crate) adds_original_uri: bool,
    /// Fields of requests to endpoints (`proxy-set-headers`).
    pub(crate) request: Option<Arc<ResourceSlot<HeaderSet>>>,
    /// Fields of responses (`add-headers`).
    pub(crate) response: Option<Arc<ResourceSlot<HeaderSet>>>,
    /// Fields removed from responses of endpoints (`hide-headers`).
    pub(crate) hidden: Box<[EditableName]>,
    /// Replacements in cookies and redirects of endpoints.
    pub(crate) replacements: Option<Replacements>,
}

/// The key by which limits count requests.
#[derive(Debug)]
pub(crate) enum LimitKey {
    /// The client's address.
    Client,
    /// The filled template (`limit-conn-zone-variable`).
    Filled(Template),
}

/// The global block list.
#[derive(Debug)]
pub(crate) enum Blocking {
    /// There is none.
    None,
    /// It cannot be compiled: every client is blocked.
    Closed,
    /// Blocks these clients.
    These(Box<Blocks>),
}

/// The rule of requests that no rule of a host matches.
#[derive(Debug, Default)]
pub(crate) enum UnmatchedRule {
    /// There is none.
    #[default]
    None,
    /// It cannot be compiled: they are refused.
    Closed,
    /// They have this rule.
    Applies(Box<Route>),
}

/// The global authorisation service.
#[derive(Debug, Default)]
pub(crate) enum GlobalAuth {
    /// There is none.
    #[default]
    None,
    /// There is one that is not usable.
    Closed,
    /// Queries this service.
    Usable(Arc<ExternalAuth>),
}

impl GlobalAuth {
    /// Returns whether there is no global service.
    pub(crate) fn is_none(&self) -> bool {
        matches!(self, Self::None)
    }
}

impl CompiledSettings {
    pub(crate) fn new(
        settings: Arc<GlobalSettings>,
        default_backend: Option<RouteBackend>,
        unmatched: UnmatchedRule,
        auth: GlobalAuth,
        resources: &Resources,
    ) -> Self {
        let compression = CompressionRules::compile(&settings).map(Arc::new);
        let blocks = match Blocks::compile(&settings.blocks) {
            Ok(None) => Blocking::None,
            Ok(Some(blocks)) => Blocking::These(Box::new(blocks)),
            Err(error) => {
                tracing::error!(%error, "the block lists cannot be compiled: all requests answer 503");
                Blocking::Closed
            }
        };
        let (computed, blocks) = match ComputedVariables::compile(&settings.computed) {
            Ok(computed) => (computed, blocks),
            Err(error) => {
                // Conditions that refuse requests may refer to them.
                tracing::error!(%error, "variables of http-snippet cannot be used: all requests answer 503");
                (ComputedVariables::default(), Blocking::Closed)
            }
        };
        Self {
            hsts: settings.hsts.as_ref().map(hsts::value),
            compression,
            sources: Sources::compile(&settings.sources),
            status_readers: Networks::compile(&settings.status_readers.concat()),
            headers: GlobalHeaders::compile(&settings, resources).map(Box::new),
            hidden_trailers: hidden_trailers(&settings),
            forwarded: ForwardedRules::compile(&settings.forwarded),
            limit_key: LimitKey::compile(&settings.limit_key),
            computed,
            log: LogRules::compile(&settings.access_log, settings.trace.collector.is_some()),
            trace: TraceRules::compile(&settings.trace),
            blocks,
            settings,
            default_backend,
            unmatched,
            auth,
        }
    }

    /// Returns whether no stage applies because of global settings alone.
    pub(crate) fn ask_nothing(&self) -> bool {
        // Lists all fields, so that a new one does not compile without a decision here.
        let Self {
            auth,
            blocks,
            sources,
            settings: _,
            status_readers: _,
            hsts: _,
            compression: _,
            default_backend: _,
            unmatched: _,
            forwarded: _,
            limit_key: _,
            computed: _,
            log: _,
            trace: _,
            headers: _,
            hidden_trailers: _,
        } = self;
        auth.is_none() && sources.is_none() && matches!(blocks, Blocking::None)
    }
}

impl LimitKey {
    fn compile(template: &sluice_config::Template) -> Self {
        if matches!(&*template.pieces, [TemplatePiece::Variable(Variable::RemoteAddr)]) {
            return Self::Client;
        }
        Template::compile(template).map_or_else(
            |error| {
                // Translation accepts only names of fields.
                tracing::error!(%error, "limit-conn-zone-variable cannot be used: limits are for each address");
                Self::Client
            },
            Self::Filled,
        )
    }
}

impl GlobalHeaders {
    /// Returns `None` if no field is configured. Skips names that cannot be hidden and keys of
    /// another kind, which the control plane never sends.
    fn compile(settings: &GlobalSettings, resources: &Resources) -> Option<Self> {
        let slot = |key: &Option<ResourceKey>| key.as_ref().and_then(|key| resources.headers(key).ok());
        let hidden = hidden_names(settings).collect();
        let replacements = match settings.replacements == sluice_config::Replacements::OFF {
            true => None,
            false => Replacements::compile(&settings.replacements).unwrap_or_else(|error| {
                tracing::error!(%error, "cookies and redirects of endpoints stay as they are");
                None
            }),
        };
        let headers = Self {
            adds_original_uri: settings.adds_original_uri,
            request: slot(&settings.request_headers),
            response: slot(&settings.response_headers),
            hidden,
            replacements,
        };
        let Self { adds_original_uri, request, response, hidden, replacements } = &headers;
        let is_used = *adds_original_uri
            || request.is_some()
            || response.is_some()
            || !hidden.is_empty()
            || replacements.is_some();
        is_used.then_some(headers)
    }
}

/// Returns the names of `hide-headers`, without those that cannot be hidden.
fn hidden_names(settings: &GlobalSettings) -> impl Iterator<Item = EditableName> {
    settings.hidden_headers.iter().filter_map(|name| EditableName::new(name).ok())
}

/// Returns the trailers that are hidden as the fields of the same names.
fn hidden_trailers(settings: &GlobalSettings) -> HiddenTrailers {
    let standard = HiddenTrailers::default();
    if settings.hidden_headers.is_empty() && !settings.server_field.of_endpoints {
        return standard;
    }
    let is_hidden = |name: &&EditableName| !settings.server_field.of_endpoints || *name.get() != SERVER;
    let names = standard.names().iter().filter(is_hidden).cloned();
    HiddenTrailers(Some(names.chain(hidden_names(settings)).collect()))
}

impl Default for CompiledSettings {
    fn default() -> Self {
        Self::new(Arc::default(), None, UnmatchedRule::None, GlobalAuth::None, &Resources::default())
    }
}
