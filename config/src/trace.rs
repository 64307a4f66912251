//! Traces of requests (OpenTelemetry): which requests are traced, the names of their spans, and the
//! collector that receives the spans.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::template::Template;

/// Global settings of traces. [`TraceSettings::default`] has the defaults of ingress-nginx.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TraceSettings {
    /// Traces requests (`enable-opentelemetry`). A rule can override it.
    pub enabled: bool,
    /// Continues the trace of the client (`opentelemetry-trust-incoming-span`). A rule can override
    /// it.
    pub trusts_incoming: bool,
    /// Name of a request's span (`opentelemetry-operation-name`); empty for the path of the rule.
    pub span_name: Template,
    /// Which traces are sampled (`otel-sampler*`).
    pub sampler: Sampler,
    /// `service.name` of the spans (`otel-service-name`).
    pub service_name: Arc<str>,
    /// The receiver of spans; `None` sends none.
    pub collector: Option<Collector>,
    /// Maximum number of spans that wait to be sent (`otel-max-queuesize`).
    pub queue: u32,
    /// Time between two exports (`otel-schedule-delay-millis`).
    pub delay: Duration,
    /// Maximum number of spans in an export (`otel-max-export-batch-size`).
    pub batch: u32,
}

/// Settings of a rule. A field that is `None` inherits the global value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RuleTracing {
    /// Traces requests of the rule.
    pub enabled: Option<bool>,
    /// Continues the trace of the client.
    pub trusts_incoming: Option<bool>,
    /// Name of a request's span.
    pub span_name: Option<Arc<Template>>,
}

/// The decision on which traces are sampled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sampler {
    /// The decision on a trace by itself (`otel-sampler`).
    pub root: RootSampler,
    /// A continued trace is sampled if its caller samples it, whatever `root` decides
    /// (`otel-sampler-parent-based`).
    pub follows_parent: bool,
}

/// The decision on a trace by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum RootSampler {
    /// Samples every trace.
    #[default]
    AlwaysOn,
    /// Samples no trace.
    AlwaysOff,
    /// Samples this share of traces, by their ids.
    TraceIdRatioBased(SampledShare),
}

/// A share of traces, or of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SampledShare(u64);

/// The receiver of spans.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Collector {
    /// Host name or address, without brackets.
    pub host: Arc<str>,
    /// TCP port.
    pub port: u16,
    /// The protocol.
    pub protocol: CollectorProtocol,
}

/// The protocol of a collector.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum CollectorProtocol {
    /// OTLP over gRPC.
    Grpc,
    /// OTLP over HTTP/1.1 with binary Protobuf.
    Http {
        /// The path that the paths of OTLP are appended to, without a slash at its end.
        base: Arc<str>,
    },
}

impl SampledShare {
    /// The number of distinct values that a trace id is compared by.
    const ALL: u64 = 1 << 63;

    /// Converts a ratio; one that is not between 0 and 1 counts as the nearest of both.
    pub fn of(ratio: f64) -> Self {
        // Saturates, and is exact for 1: the product is a power of two.
        Self(((ratio * Self::ALL as f64) as u64).min(Self::ALL))
    }

    /// Returns whether the share includes the trace whose id ends with these 64 bits. Gateways and
    /// services with the same share choose the same traces (OpenTelemetry's `TraceIdRatioBased`).
    /// For requests, the bits are random.
    pub fn includes(self, end_of_id: u64) -> bool {
        end_of_id >> 1 < self.0
    }
}

impl Default for Sampler {
    fn default() -> Self {
        Self { root: RootSampler::AlwaysOn, follows_parent: true }
    }
}

impl Default for TraceSettings {
    fn default() -> Self {
        Self {
            enabled: false,
            trusts_incoming: true,
            span_name: Template::default(),
            sampler: Sampler::default(),
            service_name: "nginx".into(),
            collector: None,
            queue: 2048,
            delay: Duration::from_secs(5),
            batch: 512,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_includes_its_part_of_the_ids() {
        for (ratio, end, is_included) in [
            (0.0, 0, false),
            (0.5, 0, true),
            (0.5, u64::MAX / 2, true),
            (0.5, u64::MAX / 2 + 1, false),
            (1.0, u64::MAX, true),
            (-1.0, 0, false),
            (7.0, u64::MAX, true),
        ] {
            assert_eq!(SampledShare::of(ratio).includes(end), is_included, "{ratio} {end:x}");
        }
    }
}
