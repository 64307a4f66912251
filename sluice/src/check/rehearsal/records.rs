//! The access log of the rehearsal: which rule, Service and endpoint a request got.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use sluice_config::{LogEscape, LogFormat, TemplatePiece, Variable};
use tokio::sync::oneshot;

/// The log line of a response. Values that do not exist are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(in super::super) struct Record {
    /// Client's port in the PROXY header.
    port: String,
    /// `$proxy_upstream_name` of the rule.
    pub(in super::super) upstream: String,
    /// `$proxy_alternative_upstream_name`: the canary, if it got the request.
    pub(in super::super) canary: String,
    /// `$upstream_addr`: the endpoints, one for each attempt.
    pub(in super::super) endpoints: String,
    /// `$upstream_header_time`: `-` for an attempt without a response.
    pub(in super::super) header_time: String,
    pub(in super::super) namespace: String,
    pub(in super::super) ingress: String,
    /// `$location_path`.
    pub(in super::super) path: String,
}

impl Record {
    /// Returns the name of the Service that answered, if an endpoint did.
    pub(in super::super) fn answered_by(&self) -> Option<&str> {
        let answered =
            self.header_time.rsplit([',', ':']).next().is_some_and(|time| !matches!(time.trim(), "" | "-"));
        let name = if self.canary.is_empty() { &self.upstream } else { &self.canary };
        (!self.endpoints.is_empty() && answered).then_some(name)
    }

    /// Returns the endpoints that were tried without a response.
    pub(in super::super) fn unreachable(&self) -> Option<&str> {
        (!self.endpoints.is_empty() && self.answered_by().is_none()).then_some(&self.endpoints)
    }
}

/// Log lines that are waited for, by the client's port in the PROXY header.
#[derive(Default)]
pub(super) struct Records(Mutex<HashMap<u16, oneshot::Sender<Record>>>);

impl Records {
    /// Returns the next record with this port.
    pub(super) fn expect(&self, port: u16) -> oneshot::Receiver<Record> {
        let (sender, receiver) = oneshot::channel();
        self.lock().insert(port, sender);
        receiver
    }

    /// Returns the output for the access log.
    pub(super) fn writer(self: Arc<Self>) -> impl Write + Send + 'static {
        RecordWriter { records: self, line: Vec::new() }
    }

    fn add(&self, line: &[u8]) {
        // Other lines, such as those of connections without a request, are not waited for.
        let Ok(record) = serde_json::from_slice::<Record>(line) else { return };
        let sender = record.port.parse().ok().and_then(|port: u16| self.lock().remove(&port));
        if let Some(sender) = sender {
            // The receiver may have given up.
            let _ = sender.send(record);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u16, oneshot::Sender<Record>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Splits the log into lines.
struct RecordWriter {
    records: Arc<Records>,
    line: Vec<u8>,
}

impl Write for RecordWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.line.extend_from_slice(bytes);
        while let Some(end) = self.line.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.line.drain(..=end).collect();
            self.records.add(&line);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the format of a [`Record`].
pub(super) fn format() -> LogFormat {
    use Variable as V;
    let fields = [
        ("{\"port\":\"", V::ProxyProtocolPort),
        ("\",\"upstream\":\"", V::ProxyUpstreamName),
        ("\",\"canary\":\"", V::ProxyAlternativeUpstreamName),
        ("\",\"endpoints\":\"", V::UpstreamAddr),
        ("\",\"header_time\":\"", V::UpstreamHeaderTime),
        ("\",\"namespace\":\"", V::Namespace),
        ("\",\"ingress\":\"", V::IngressName),
        ("\",\"path\":\"", V::LocationPath),
    ];
    let pieces = fields
        .into_iter()
        .flat_map(|(text, variable)| [TemplatePiece::Text(text.into()), TemplatePiece::Variable(variable)]);
    LogFormat { pieces: pieces.chain([TemplatePiece::Text("\"}".into())]).collect(), escape: LogEscape::Json }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_is_written_in_parts_reaches_its_receiver() {
        let records = Arc::<Records>::default();
        let (mut seven, mut eight) = (records.expect(7), records.expect(8));
        let mut log = records.writer();
        let line = |port: u16| {
            format!(
                "{{\"port\":\"{port}\",\"upstream\":\"shop-web-80\",\"canary\":\"\",\"endpoints\":\"10.0.0.1:80\",\
                 \"header_time\":\"0.001\",\"namespace\":\"shop\",\"ingress\":\"web\",\"path\":\"/\"}}\n"
            )
        };
        let text = format!("other\n{}", line(8));
        let (one, two) = text.split_at(20);
        log.write_all(one.as_bytes()).unwrap();
        log.write_all(two.as_bytes()).unwrap();
        assert!(seven.try_recv().is_err(), "its line was not written");
        assert_eq!(eight.try_recv().unwrap().answered_by(), Some("shop-web-80"));
    }

    #[test]
    fn an_endpoint_that_was_tried_in_vain_has_not_answered() {
        let record = Record {
            upstream: "shop-web-80".into(),
            endpoints: "10.0.0.1:80, 10.0.0.2:80".into(),
            header_time: "-, -".into(),
            ..Record::default()
        };
        assert_eq!((record.answered_by(), record.unreachable()), (None, Some("10.0.0.1:80, 10.0.0.2:80")));
        let record = Record { header_time: "-, 0.002".into(), canary: "shop-next-80".into(), ..record };
        assert_eq!((record.answered_by(), record.unreachable()), (Some("shop-next-80"), None));
    }
}
