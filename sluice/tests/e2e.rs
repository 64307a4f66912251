//! End-to-end tests: the real program on folders of manifests, with real backends and clients on loopback. One
//! module per family of behaviour; a test is named for what must hold.

mod harness;

mod e2e_access_log;
mod e2e_admin;
mod e2e_affinity;
mod e2e_basic_auth;
mod e2e_body_size;
mod e2e_canary;
mod e2e_check;
mod e2e_classes;
mod e2e_closed;
mod e2e_compression;
mod e2e_conflicts;
mod e2e_default_backend;
mod e2e_endpoints;
mod e2e_error_pages;
mod e2e_errors;
mod e2e_external_auth;
mod e2e_flags;
mod e2e_folder;
mod e2e_grpc;
mod e2e_headers;
mod e2e_hosts;
mod e2e_http2;
mod e2e_limit_rate;
mod e2e_listeners;
mod e2e_malformed;
mod e2e_metrics;
mod e2e_mirror;
mod e2e_overload;
mod e2e_paths;
mod e2e_redirects;
mod e2e_request_buffering;
mod e2e_requests;
mod e2e_retry;
mod e2e_rewrite;
mod e2e_settings;
mod e2e_shutdown;
mod e2e_snapshot;
mod e2e_tls;
mod e2e_upgrade;
