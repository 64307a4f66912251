//! Lines of the access log as OTLP log records.

use std::time::SystemTime;

use opentelemetry_proto::tonic::collector::logs::v1::{ExportLogsServiceRequest, ExportLogsServiceResponse};
use opentelemetry_proto::tonic::common::v1::AnyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::logs::v1::{LogRecord, ResourceLogs, ScopeLogs, SeverityNumber};

use super::Signal;
use super::attribute::{SCHEMA, nanoseconds, number, resource, scope};
use crate::otel::TraceContext;

/// The signal of log records.
#[derive(Debug)]
pub(crate) struct LogRecords;

/// A line of the access log.
#[derive(Clone, Debug)]
pub(crate) struct LoggedLine {
    pub(crate) time: SystemTime,
    /// The line without its newline.
    pub(crate) line: Box<str>,
    pub(crate) status: u16,
    /// The trace of the request, if it is traced.
    pub(crate) context: Option<TraceContext>,
}

impl Signal for LogRecords {
    type Item = LoggedLine;
    type Record = LogRecord;
    type Request = ExportLogsServiceRequest;
    type Response = ExportLogsServiceResponse;

    const NAME: &'static str = "log records";
    const GRPC_PATH: &'static str = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";
    const HTTP_PATH: &'static str = "/v1/logs";

    fn count(_: &LoggedLine) -> usize {
        1
    }

    fn push(records: &mut Vec<LogRecord>, item: &LoggedLine) {
        let LoggedLine { time, line, status, context } = item;
        let context = context.as_ref();
        records.push(LogRecord {
            time_unix_nano: nanoseconds(*time),
            observed_time_unix_nano: nanoseconds(*time),
            severity_number: SeverityNumber::Info.into(),
            severity_text: "INFO".to_owned(),
            body: Some(AnyValue { value: Some(Value::StringValue(line.to_string())) }),
            attributes: vec![number("http.response.status_code", *status)],
            flags: context.map_or(0, |context| context.is_sampled.into()),
            trace_id: context.map(|context| context.trace.bytes().to_vec()).unwrap_or_default(),
            span_id: context.map(|context| context.span.bytes().to_vec()).unwrap_or_default(),
            ..LogRecord::default()
        });
    }

    fn request(service: &str, instance: &str, log_records: Vec<LogRecord>) -> ExportLogsServiceRequest {
        let logs = ScopeLogs { scope: Some(scope()), log_records, schema_url: SCHEMA.to_owned() };
        let of_resource = ResourceLogs {
            resource: Some(resource(service, instance)),
            scope_logs: vec![logs],
            schema_url: SCHEMA.to_owned(),
        };
        ExportLogsServiceRequest { resource_logs: vec![of_resource] }
    }

    fn rejected(response: ExportLogsServiceResponse) -> (i64, String) {
        let partial = response.partial_success.unwrap_or_default();
        (partial.rejected_log_records, partial.error_message)
    }
}
