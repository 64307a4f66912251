use sluice_config::{Certificate, CertificateId, PrivateKey};

use super::*;
use crate::cache::{CacheUse, FileErrors, FileUse};
use crate::registry::CheckedEndpoint;

#[test]
fn everything_is_printed_once_in_text() {
    let telemetry = Telemetry::new(TelemetryOptions::default(), AccessLog::none()).unwrap();
    telemetry.connection_opened();
    telemetry.connection_opened();
    telemetry.connection_closed();
    telemetry.connection_refused();
    telemetry.request_began();
    telemetry.handshake_failed();
    telemetry.cached(CacheStatus::Hit);
    telemetry.retried();
    telemetry.request_refused(StatusCode::BAD_REQUEST);
    telemetry.nodes_recomputed("host", 3);
    telemetry.skipped_objects([("Gone", 1)]);
    telemetry.skipped_objects([("Pod", 2), (&*"x".repeat(400), 3)]);
    telemetry.applied(Generation(7), Duration::from_millis(2), false, u64::MAX);
    let certificate = Certificate {
        id: CertificateId::new("shop", "tls"),
        chain: Vec::new(),
        key: PrivateKey::Pkcs8(Vec::new()),
        facts: sluice_config::certificate::CertificateFacts {
            issuer_common_name: Some("ca".into()),
            serial_number: "12".into(),
            not_after: 1_900_000_000,
            ..Default::default()
        },
    };
    let served = HostCertificate { host: "a.example", certificate: &certificate };
    let counts = HealthCounts { healthy: 4, ejected: 1, failing: 0 };
    let checked = HealthCheckResults {
        endpoints: vec![CheckedEndpoint {
            set: sluice_config::EndpointSetKey {
                namespace: "shop".into(),
                service: "web".into(),
                port: "http".into(),
            },
            address: ([10, 0, 0, 1], 8080).into(),
            check: "tcp".into(),
            is_healthy: false,
        }],
        passed: 6,
        failed: 3,
    };
    let errors = FileErrors { read: 1, write: 2, damage: 3 };
    let files = FileUse { bytes: 4096, limit: 8192, entries: 1, errors };
    let cache = CacheUse { bytes: 7, limit: 9, responses: 1, evictions: 4, files };
    let memory = MemoryUse { taken: 5, limit: 1 << 27, waits: 3, refusals: 2, cache };
    let exports = OtelCounts::default();
    for _ in 0..2 {
        let families = telemetry
            .gather(counts, &checked, memory, exports, [served].into_iter(), &BTreeSet::new())
            .unwrap();
        let text = telemetry.text(&families).unwrap();
        let prefix =
            "controller_class=\"k8s.io/ingress-nginx\",controller_namespace=\"\",controller_pod=\"\"";
        for line in [
            format!("nginx_ingress_controller_nginx_process_connections{{{prefix},state=\"active\"}} 1"),
            format!("nginx_ingress_controller_nginx_process_connections{{{prefix},state=\"waiting\"}} 0"),
            format!(
                "nginx_ingress_controller_nginx_process_connections_total{{{prefix},state=\"accepted\"}} 3"
            ),
            format!(
                "nginx_ingress_controller_nginx_process_connections_total{{{prefix},state=\"handled\"}} 2"
            ),
            "sluice_connections_accepted_total 3".into(),
            format!("nginx_ingress_controller_nginx_process_requests_total{{{prefix}}} 1"),
            format!("nginx_ingress_controller_config_last_reload_successful{{{prefix}}} 0"),
            format!(
                "nginx_ingress_controller_ssl_expire_time_seconds{{class=\"k8s.io/ingress-nginx\",{prefix},\
                 host=\"a.example\",identifier=\"ca-12\",namespace=\"shop\",secret_name=\"tls\"}} 1900000000"
            ),
            "sluice_body_memory_bytes 5".into(),
            "sluice_body_memory_limit_bytes 134217728".into(),
            "sluice_body_memory_refusals_total 2".into(),
            "sluice_body_memory_waits_total 3".into(),
            "sluice_cache_bytes 7".into(),
            "sluice_cache_evictions_total 4".into(),
            "sluice_cache_file_bytes 4096".into(),
            "sluice_cache_file_entries 1".into(),
            "sluice_cache_file_errors_total{error=\"damage\"} 3".into(),
            "sluice_cache_file_errors_total{error=\"read\"} 1".into(),
            "sluice_cache_file_errors_total{error=\"write\"} 2".into(),
            "sluice_cache_file_limit_bytes 8192".into(),
            "sluice_cache_limit_bytes 9".into(),
            "sluice_cache_requests_total{status=\"hit\"} 1".into(),
            "sluice_cache_requests_total{status=\"stale\"} 0".into(),
            "sluice_cache_responses 1".into(),
            "sluice_connections_open 1".into(),
            "sluice_connections_refused_total 1".into(),
            "sluice_endpoints{health=\"ejected\"} 1".into(),
            "sluice_endpoint_healthy{address=\"10.0.0.1:8080\",check=\"tcp\",namespace=\"shop\",port=\"http\",service=\"web\"} 0".into(),
            "sluice_generation 7".into(),
            "sluice_health_checks_total{outcome=\"failed\"} 3".into(),
            "sluice_health_checks_total{outcome=\"passed\"} 6".into(),
            "sluice_nodes_recomputed_total{node=\"host\"} 3".into(),
            "sluice_problems{severity=\"error\"} 0".into(),
            "sluice_otel_log_records_exported_total 0".into(),
            "sluice_otel_spans_dropped_total{reason=\"queue_full\"} 0".into(),
            "sluice_otel_spans_exported_total 0".into(),
            "sluice_otel_spans_waiting 0".into(),
            "sluice_requests_refused_total{status=\"400\"} 1".into(),
            "sluice_skipped_objects{kind=\"Pod\"} 2".into(),
            "sluice_skipped_objects{kind=\"_\"} 3".into(),
            "sluice_tls_handshake_failures_total 1".into(),
            "sluice_upstream_retries_total 1".into(),
            "sluice_access_log_dropped_lines_total 0".into(),
            "sluice_log_dropped_lines_total 0".into(),
        ] {
            assert!(text.lines().any(|printed| printed == line), "{line}\n{text}");
        }
        assert!(text.contains("process_resident_memory_bytes"));
        assert!(!text.contains("Gone"), "the last one of its kind has gone");
        assert!(!text.contains("nginx_ingress_controller_requests"), "kept without --enable-metrics");
    }
}
