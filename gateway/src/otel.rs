//! OpenTelemetry: the context that a request carries to its endpoint, and the spans and log records
//! that are sent to a collector.
//!
//! A request that is traced has a context with a trace and a span of its own. Only if its trace is
//! sampled, the request also keeps what its spans contain. When it ends, it puts one
//! [`RequestTrace`] into a bounded [queue](Queue) without a lock. A task outside of the workers
//! turns these into spans and sends them in batches; it never delays a request, and a collector
//! that does not answer costs no more than the queue. Lines of the access log take the same way.

mod context;
mod exporter;
mod ids;
mod queue;
mod record;
mod sampling;
mod signal;

pub(crate) use context::{IncomingContext, TraceContext};
pub(crate) use exporter::{CollectorFault, Exporter};
pub(crate) use ids::{SpanId, TraceId};
pub(crate) use queue::{ExportCounts, Queue};
pub(crate) use record::{AttemptTrace, RequestTrace, shortened, shortened_line};
pub(crate) use sampling::is_sampled;
pub(crate) use signal::{LogRecords, LoggedLine, Signal, Spans};
