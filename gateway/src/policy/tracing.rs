//! Settings of traces in compiled form.

use sluice_config::{LogEscape, Sampler, Template, TraceSettings};

use crate::telemetry::LogFormat;

/// Compiled global settings.
#[derive(Debug)]
pub(crate) struct TraceRules {
    /// Whether requests are traced, unless their rule overrides it.
    pub(crate) enabled: bool,
    /// Whether traces of clients are continued, unless the rule overrides it.
    pub(crate) trusts_incoming: bool,
    pub(crate) sampler: Sampler,
    /// Whether a collector receives spans.
    pub(crate) sends_spans: bool,
    /// Name of a request's span; `None` is the path of the rule.
    pub(crate) span_name: Option<SpanName>,
}

/// The name of a request's span. It is evaluated like a line of the access log, and may have the
/// same variables.
#[derive(Debug)]
pub struct SpanName(pub(crate) LogFormat);

impl TraceRules {
    /// Compiles the settings.
    pub(crate) fn compile(settings: &TraceSettings) -> Self {
        Self {
            enabled: settings.enabled,
            trusts_incoming: settings.trusts_incoming,
            sampler: settings.sampler,
            sends_spans: settings.collector.is_some(),
            span_name: (!settings.span_name.pieces.is_empty())
                .then(|| SpanName::compile(&settings.span_name)),
        }
    }
}

impl SpanName {
    /// Compiles a name.
    pub(crate) fn compile(template: &Template) -> Self {
        let pieces = template.pieces.clone().into();
        Self(LogFormat::compile(&sluice_config::LogFormat { pieces, escape: LogEscape::None }))
    }
}
