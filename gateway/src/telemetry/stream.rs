//! Metrics of streams: one set of series per protocol and Service port.

use prometheus::core::Collector;
use prometheus::{IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};
use sluice_config::ServiceRef;

use super::error::TelemetryError;

/// Labels of every series.
const LABELS: [&str; 4] = ["protocol", "namespace", "service", "port"];

/// The families.
#[derive(Debug)]
pub(super) struct StreamFamilies {
    open: IntGaugeVec,
    ended: IntCounterVec,
    bytes: IntCounterVec,
    dropped: IntCounter,
    evicted: IntCounter,
}

/// The meters of one target of streams.
#[derive(Debug)]
pub(crate) struct StreamMeters {
    /// Streams now.
    pub(crate) open: IntGauge,
    /// Bytes from clients.
    pub(crate) received: IntCounter,
    /// Bytes to clients.
    pub(crate) sent: IntCounter,
    served: IntCounter,
    refused: IntCounter,
    failed: IntCounter,
    unavailable: IntCounter,
}

impl StreamMeters {
    /// A stream ended with this status
    /// ([`StreamLogVariable::Status`](sluice_config::StreamLogVariable)).
    pub(crate) fn ended(&self, status: u16) {
        match status {
            200 => self.served.inc(),
            400 => self.refused.inc(),
            503 => self.unavailable.inc(),
            _ => self.failed.inc(),
        }
    }
}

impl StreamFamilies {
    pub(super) fn new(registry: &Registry) -> Result<Self, TelemetryError> {
        let with = |more: &'static str| {
            let mut labels = LABELS.to_vec();
            labels.push(more);
            labels
        };
        let this = Self {
            open: IntGaugeVec::new(
                Opts::new("sluice_streams_open", "TCP connections, UDP sessions and passed-through TLS now."),
                &LABELS,
            )?,
            ended: IntCounterVec::new(
                Opts::new("sluice_streams_total", "Ended streams by status, as in the log of streams."),
                &with("status"),
            )?,
            bytes: IntCounterVec::new(
                Opts::new(
                    "sluice_stream_bytes_total",
                    "Bytes of streams by direction, seen from the gateway.",
                ),
                &with("direction"),
            )?,
            dropped: IntCounter::new(
                "sluice_datagrams_dropped_total",
                "UDP datagrams that no endpoint or client could be sent.",
            )?,
            evicted: IntCounter::new(
                "sluice_udp_sessions_evicted_total",
                "UDP sessions ended early, the longest idle first, to admit new ones.",
            )?,
        };
        let all: [Box<dyn Collector>; 5] = [
            Box::new(this.open.clone()),
            Box::new(this.ended.clone()),
            Box::new(this.bytes.clone()),
            Box::new(this.dropped.clone()),
            Box::new(this.evicted.clone()),
        ];
        for family in all {
            registry.register(family)?;
        }
        Ok(this)
    }

    /// The meters of a target; `protocol` is `tcp`, `udp` or `tls`.
    pub(super) fn meters(&self, protocol: &str, service: &ServiceRef) -> StreamMeters {
        let labels = [protocol, &*service.namespace, &*service.name, &*service.port];
        let with = |more: &'static str| {
            let [protocol, namespace, name, port] = labels;
            [protocol, namespace, name, port, more]
        };
        StreamMeters {
            open: self.open.with_label_values(&labels),
            received: self.bytes.with_label_values(&with("received")),
            sent: self.bytes.with_label_values(&with("sent")),
            served: self.ended.with_label_values(&with("200")),
            refused: self.ended.with_label_values(&with("400")),
            failed: self.ended.with_label_values(&with("502")),
            unavailable: self.ended.with_label_values(&with("503")),
        }
    }

    /// Removes the series of a target that no stream can reach any more.
    pub(super) fn forget(&self, protocol: &str, service: &ServiceRef) {
        let labels = [protocol, &*service.namespace, &*service.name, &*service.port];
        let [protocol, namespace, name, port] = labels;
        // A series that is gone already needs no removal.
        let _ = self.open.remove_label_values(&labels);
        for more in ["received", "sent"] {
            let _ = self.bytes.remove_label_values(&[protocol, namespace, name, port, more]);
        }
        for more in ["200", "400", "502", "503"] {
            let _ = self.ended.remove_label_values(&[protocol, namespace, name, port, more]);
        }
    }

    pub(super) fn dropped(&self) {
        self.dropped.inc();
    }

    pub(super) fn evicted(&self) {
        self.evicted.inc();
    }
}
