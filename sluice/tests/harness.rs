//! Short names for the items of the crate `sluice-testing` that the end-to-end tests use.

pub(crate) use sluice_testing::backend::{Backend, Gate, Reply};
pub(crate) use sluice_testing::browser::Browser as Chromium;
pub(crate) use sluice_testing::certificate::{Authority, TestCertificate};
pub(crate) use sluice_testing::client::{Connection, answer_to, get, get_tls};
pub(crate) use sluice_testing::folder::Folder;
pub(crate) use sluice_testing::gateway::Gateway;
pub(crate) use sluice_testing::grpc;
pub(crate) use sluice_testing::manifest::{Ingress, class, config_map, endpoints, service, site};
pub(crate) use sluice_testing::nginx::Nginx;
pub(crate) use sluice_testing::wait::{PATIENCE, await_some, await_until, pause, until};
pub(crate) use sluice_testing::{
    client, epoll, gateway, http2 as h2, manifest, ocsp, ports, stream, trust, wire,
};
