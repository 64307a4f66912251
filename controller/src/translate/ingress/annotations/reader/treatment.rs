//! The treatment of an Ingress because of its annotations.

use sluice_config::{Deny, Problem};

use crate::translate::ingress::annotations::Settings;
use crate::translate::routes::HostClosure;

/// The treatment of an Ingress because of its annotations; later variants are more severe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// It is served.
    Serve,
    /// It keeps its hosts and paths, which are closed: with 404 if the Ingress is rejected, with
    /// 503 if a setting is not available.
    Close(Deny),
    /// It is a canary: without routes of its own, it receives requests of other Ingresses.
    Canary {
        /// It is rejected and receives none.
        rejected: bool,
    },
}

/// The result of the annotations of an Ingress.
pub struct Parsed {
    /// Typed settings.
    pub settings: Settings,
    /// Treatment of the Ingress.
    pub treatment: Treatment,
    /// Closure of other routes on its hosts, because of a setting for the whole host that is not
    /// available.
    pub(crate) closes_hosts: Option<HostClosure>,
    /// Whether only snippets close it.
    pub closed_by_snippets: bool,
    /// Problems of the annotations.
    pub problems: Vec<Problem>,
}
