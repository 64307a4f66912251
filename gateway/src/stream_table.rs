//! Compiled targets of streams, which connections and datagrams look up.

use std::fmt;
use std::sync::Arc;

use imbl::HashMap;
use sluice_config::{
    Code, GroupId, HostKey, HostName, HostPattern, ListenerGroup, ListenerId, Refusal, ServiceRef, Stream,
    Subject, TransportProtocol,
};

use crate::registry::{Pool, Registry};
use crate::route::Route;
use crate::router::RouteTable;
use crate::telemetry::{StreamMeters, Telemetry};
use crate::variable::log_name;

/// The target of a stream, with handles in place of keys.
pub(crate) struct StreamRoute {
    /// Endpoints.
    pub(crate) pool: Arc<Pool>,
    /// `$proxy_upstream_name`.
    pub(crate) name: Box<str>,
    /// The entry by which connections begin with a PROXY protocol header, such as `data[5432] of
    /// ConfigMap edge/tcp`; `None` if they do not.
    pub(crate) accepts_proxy: Option<Arc<str>>,
    /// Whether connections to endpoints begin with one.
    pub(crate) sends_proxy: bool,
    /// Metrics.
    pub(crate) meters: StreamMeters,
    protocol: &'static str,
    service: ServiceRef,
}

/// All targets. A clone shares everything.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamTable {
    services: HashMap<GroupId, Arc<StreamRoute>>,
    /// Hosts whose TLS is passed through.
    passed: HashMap<HostKey, Arc<StreamRoute>>,
}

impl StreamRoute {
    fn compile(
        stream: &Stream,
        entry: Option<&Arc<str>>,
        protocol: &'static str,
        registry: &Registry,
        telemetry: &Telemetry,
    ) -> Option<Arc<Self>> {
        let service = stream.service.clone();
        Some(Arc::new(Self {
            pool: registry.pool(&stream.pool)?,
            name: log_name(&format!("{protocol}-{service}")).into(),
            accepts_proxy: entry.filter(|_| stream.accepts_proxy).cloned(),
            sends_proxy: stream.sends_proxy,
            meters: telemetry.stream_meters(protocol, &service),
            protocol,
            service,
        }))
    }
}

impl StreamTable {
    /// Sets the target of a listener group. The error is the refusal of a target whose pool was
    /// never sent; its connections are closed.
    pub(crate) fn set_service(
        &mut self,
        id: &GroupId,
        group: Option<&ListenerGroup>,
        registry: &Registry,
        telemetry: &Telemetry,
    ) -> Result<(), Refusal> {
        let stream = group.and_then(|group| group.stream.as_ref().map(|stream| (group, stream)));
        let compiled = stream.map(|(group, stream)| {
            let bind = group.binds.first();
            let transport = bind.map_or(TransportProtocol::Tcp, |bind| bind.protocol.transport());
            let entry = bind.map(|bind| &bind.source);
            StreamRoute::compile(stream, entry, transport.as_str(), registry, telemetry)
        });
        let old = match compiled {
            Some(Some(ref route)) => self.services.insert(id.clone(), route.clone()),
            Some(None) | None => self.services.remove(id),
        };
        self.forget_meters(old, telemetry);
        match compiled {
            Some(None) => Err(unknown_pool(Subject::Group(id.clone()))),
            Some(Some(_)) | None => Ok(()),
        }
    }

    /// Sets or removes the target of a host. The error is the refusal of a target whose pool was
    /// never sent; the host's TLS is terminated then.
    pub(crate) fn set_host(
        &mut self,
        key: &HostKey,
        stream: Option<&Stream>,
        registry: &Registry,
        telemetry: &Telemetry,
    ) -> Result<(), Refusal> {
        let compiled = stream.map(|stream| StreamRoute::compile(stream, None, "tls", registry, telemetry));
        let old = match compiled {
            Some(Some(ref route)) => self.passed.insert(key.clone(), route.clone()),
            Some(None) | None => self.passed.remove(key),
        };
        self.forget_meters(old, telemetry);
        match compiled {
            Some(None) => Err(unknown_pool(Subject::Host(key.clone()))),
            Some(Some(_)) | None => Ok(()),
        }
    }

    /// Returns the target of the TCP or UDP service of a listener group.
    pub(crate) fn service(&self, group: &GroupId) -> Option<&Arc<StreamRoute>> {
        self.services.get(group)
    }

    /// Returns whether any host is passed through.
    pub(crate) fn passes_any(&self) -> bool {
        !self.passed.is_empty()
    }

    /// Returns the target of TLS for `name`, in lower case, if the most specific host of that name
    /// is passed through.
    pub(crate) fn passthrough(
        &self,
        routes: &RouteTable<Route>,
        group: &GroupId,
        name: &str,
    ) -> Option<&Arc<StreamRoute>> {
        if !self.passes_any() {
            return None;
        }
        let key = |pattern| HostKey { group: group.clone(), listener: ListenerId::any(), pattern };
        let parents = std::iter::successors(parent(name), |name| parent(name));
        let one_label = parents.clone().take(1).map(|parent| HostPattern::OneLabel(HostName::new(parent)));
        let suffixes = parents.map(|parent| HostPattern::Suffix(HostName::new(parent)));
        let patterns =
            std::iter::once(HostPattern::Exact(HostName::new(name))).chain(one_label).chain(suffixes);
        for key in patterns.chain([HostPattern::Any]).map(key) {
            if let Some(route) = self.passed.get(&key) {
                return Some(route);
            }
            if routes.host(&key).is_some() {
                return None;
            }
        }
        None
    }

    /// Removes the series of a route that is gone, unless another route has the same ones.
    fn forget_meters(&self, old: Option<Arc<StreamRoute>>, telemetry: &Telemetry) {
        let Some(old) = old else { return };
        let same = |route: &Arc<StreamRoute>| route.protocol == old.protocol && route.service == old.service;
        if !self.services.values().chain(self.passed.values()).any(same) {
            telemetry.forget_stream_meters(old.protocol, &old.service);
        }
    }
}

fn parent(name: &str) -> Option<&str> {
    name.split_once('.').map(|(_, parent)| parent)
}

fn unknown_pool(subject: Subject) -> Refusal {
    Refusal {
        subject,
        origin: None,
        code: Code::PartRefused,
        reason: "its pool is not known; this is a defect of Sluice, please report it".into(),
    }
}

impl fmt::Debug for StreamRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamRoute").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
