//! The driver of the translation: which nodes are recomputed, and in which order.
//!
//! The order is defined once, for updates and for reviews. A [`NodeKind`] computes a value; a
//! [`Sink`] applies its consequences.

use std::collections::HashSet;
use std::hash::Hash;
use std::mem::take;
use std::sync::Arc;

use sluice_config::{
    EndpointSet, EndpointSetKey, HostKey, NamespacedName, Problem, ResourceKey, StreamKey, TransportProtocol,
};

use super::certificate::CertificateState;
use super::global_settings::ConfigMapSettings;
use super::resource::ResourceState;
use super::routes::{ObjectRoutes, host};
use super::streams::{StreamOutput, StreamServices};
use super::view::View;
use super::{certificate, endpoints, flags, global_settings, ingress, resource, streams};
use crate::graph::{ReadKey, Reads, TranslationNode};
use crate::store::Object;

/// Nodes to recompute.
#[derive(Default)]
pub(super) struct Dirty {
    pub(super) config_map: bool,
    pub(super) flags: bool,
    pub(super) ingresses: HashSet<NamespacedName>,
    pub(super) certificates: HashSet<NamespacedName>,
    pub(super) resources: HashSet<ResourceKey>,
    pub(super) hosts: HashSet<HostKey>,
    pub(super) stream_services: HashSet<TransportProtocol>,
    pub(super) streams: HashSet<StreamKey>,
    pub(super) endpoints: HashSet<EndpointSetKey>,
}

impl Dirty {
    pub(super) fn add(&mut self, node: &TranslationNode) {
        match node {
            TranslationNode::ConfigMap => self.config_map = true,
            TranslationNode::Flags => self.flags = true,
            TranslationNode::Ingress(name) => drop(self.ingresses.insert(name.clone())),
            TranslationNode::Certificate(name) => drop(self.certificates.insert(name.clone())),
            TranslationNode::Resource(key) => drop(self.resources.insert(key.clone())),
            TranslationNode::Host(key) => drop(self.hosts.insert(key.clone())),
            TranslationNode::StreamServices(transport) => drop(self.stream_services.insert(*transport)),
            TranslationNode::Stream(key) => drop(self.streams.insert(*key)),
            TranslationNode::Endpoints(key) => drop(self.endpoints.insert(key.clone())),
        }
    }

    /// Marks the nodes of an object that was added, changed or removed. Returns the keys that
    /// change with it, besides its own.
    pub(super) fn object(&mut self, old: Option<&Object>, new: Option<&Object>) -> Vec<ReadKey> {
        let mut keys = Vec::new();
        for object in old.into_iter().chain(new) {
            match object {
                Object::Ingress(ingress) => drop(self.ingresses.insert(ingress.name.clone())),
                Object::IngressClass(class) if class.is_default => keys.push(ReadKey::DefaultClass),
                Object::EndpointSlice(slice) => keys.push(ReadKey::SlicesOf(slice.service.clone())),
                _ => {}
            }
        }
        keys
    }
}

/// Number of recomputed nodes of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// ConfigMap and flags.
    pub settings: usize,
    /// Ingresses.
    pub ingresses: usize,
    /// Certificates.
    pub certificates: usize,
    /// Users, header sets and other resources.
    pub resources: usize,
    /// Hosts.
    pub hosts: usize,
    /// TCP and UDP services.
    pub streams: usize,
    /// Pools that were added or removed.
    pub pools: usize,
    /// Endpoint sets.
    pub endpoints: usize,
}

impl Stats {
    /// Returns the counts with a name for each, for metrics.
    pub fn by_kind(&self) -> [(&'static str, usize); 8] {
        [
            ("settings", self.settings),
            ("ingress", self.ingresses),
            ("certificate", self.certificates),
            ("resource", self.resources),
            ("host", self.hosts),
            ("stream", self.streams),
            ("pool", self.pools),
            ("endpoints", self.endpoints),
        ]
    }
}

/// A kind of node.
pub(super) trait NodeKind {
    /// Identity of a node among those of its kind.
    type Key: Clone;
    type Value;

    fn node(key: &Self::Key) -> TranslationNode;

    /// Takes the nodes of this kind that must be recomputed.
    fn take(dirty: &mut Dirty) -> impl Iterator<Item = Self::Key> + use<Self>;

    fn count(stats: &mut Stats) -> &mut usize;

    fn compute(view: &View<'_>, key: &Self::Key) -> (Self::Value, Vec<Problem>);

    /// Returns whether a node with this value is kept. It is recomputed only while it is.
    fn is_kept(_value: &Self::Value, _problems: &[Problem]) -> bool {
        true
    }
}

/// The target of recomputed nodes: the state in force, or a review.
pub(super) trait NodeTarget {
    fn view(&self) -> View<'_>;

    fn dirty(&mut self) -> &mut Dirty;

    fn stats(&mut self) -> &mut Stats;

    /// Records what a node has read and its problems.
    fn record(&mut self, node: TranslationNode, reads: Reads, problems: Vec<Problem>);

    /// Removes the record of a node.
    fn forget(&mut self, node: TranslationNode);

    /// Marks the nodes that have read `key`.
    fn stale(&mut self, key: &ReadKey);
}

/// The consequences of the values of one kind of node.
pub(super) trait Sink<N: NodeKind>: NodeTarget {
    /// Marks nodes of this kind that other nodes have begun or ceased to use.
    fn prepare(&mut self) {}

    /// Returns whether the node exists. The value of one that does not is `None`.
    fn exists(&self, _key: &N::Key) -> bool {
        true
    }

    /// Replaces the value of a node, and marks what must be recomputed because of that.
    fn put(&mut self, key: N::Key, value: Option<N::Value>);
}

/// Recomputes the nodes of one kind.
fn run_kind<N: NodeKind>(target: &mut impl Sink<N>) {
    target.prepare();
    for key in N::take(target.dirty()) {
        if !target.exists(&key) {
            target.forget(N::node(&key));
            target.put(key, None);
            continue;
        }
        let view = target.view();
        let (value, problems) = N::compute(&view, &key);
        let reads = view.into_reads();
        *N::count(target.stats()) += 1;
        match N::is_kept(&value, &problems) {
            true => target.record(N::node(&key), reads, problems),
            false => target.forget(N::node(&key)),
        }
        target.put(key, Some(value));
    }
}

/// Recomputes what determines the Secrets and ConfigMaps that are referred to.
pub(super) fn survey<D>(target: &mut D)
where
    D: Sink<ConfigMapNode> + Sink<IngressNode> + Sink<CertificateNode> + Sink<ResourceNode>,
    D: Sink<StreamServicesNode>,
{
    run_kind::<ConfigMapNode>(target);
    run_kind::<StreamServicesNode>(target);
    run_kind::<IngressNode>(target);
    run_kind::<CertificateNode>(target);
    run_kind::<ResourceNode>(target);
}

/// Recomputes all nodes that are dirty, in the order in which they read each other.
pub(super) fn run<D>(target: &mut D)
where
    D: Sink<ConfigMapNode> + Sink<IngressNode> + Sink<CertificateNode> + Sink<ResourceNode>,
    D: Sink<StreamServicesNode>,
    D: Sink<FlagsNode> + Sink<HostNode> + Sink<StreamNode> + Sink<EndpointsNode>,
{
    survey(target);
    run_kind::<FlagsNode>(target);
    run_kind::<HostNode>(target);
    run_kind::<StreamNode>(target);
    run_kind::<EndpointsNode>(target);
}

/// The keys of the ConfigMap.
pub(super) struct ConfigMapNode;

impl NodeKind for ConfigMapNode {
    type Key = ();
    type Value = ConfigMapSettings;

    fn node((): &()) -> TranslationNode {
        TranslationNode::ConfigMap
    }

    fn take(dirty: &mut Dirty) -> impl Iterator<Item = ()> + use<> {
        take(&mut dirty.config_map).then_some(()).into_iter()
    }

    fn count(stats: &mut Stats) -> &mut usize {
        &mut stats.settings
    }

    fn compute(view: &View<'_>, (): &()) -> (ConfigMapSettings, Vec<Problem>) {
        global_settings::read(view.own_config_map().map(|map| &**map))
    }
}

/// The routes of an Ingress; no value if it is not served by this controller.
pub(super) struct IngressNode;

impl NodeKind for IngressNode {
    type Key = NamespacedName;
    type Value = Option<ObjectRoutes>;

    fn node(name: &NamespacedName) -> TranslationNode {
        TranslationNode::Ingress(name.clone())
    }

    fn take(dirty: &mut Dirty) -> impl Iterator<Item = NamespacedName> + use<> {
        all(&mut dirty.ingresses)
    }

    fn count(stats: &mut Stats) -> &mut usize {
        &mut stats.ingresses
    }

    fn compute(view: &View<'_>, name: &NamespacedName) -> (Option<ObjectRoutes>, Vec<Problem>) {
        ingress::compute(view, name)
    }
}

/// A certificate that something names.
pub(super) struct CertificateNode;

impl NodeKind for CertificateNode {
    type Key = NamespacedName;
    type Value = CertificateState;

    fn node(secret: &NamespacedName) -> TranslationNode {
        TranslationNode::Certificate(secret.clone())
    }

    fn take(dirty: &mut Dirty) -> impl Iterator<Item = NamespacedName> + use<> {
        all(&mut dirty.certificates)
    }

    fn count(stats: &mut Stats) -> &mut usize {
        &mut stats.certificates
    }

    fn compute(view: &View<'_>, secret: &NamespacedName) -> (CertificateState, Vec<Problem>) {
        certificate::compute(view, secret)
    }
}

/// A resource that something names.
pub(super) struct ResourceNode;

impl NodeKind for ResourceNode {
    type Key = ResourceKey;
    type Value = ResourceState;

    fn node(key: &ResourceKey) -> TranslationNode {
        TranslationNode::Resource(key.clone())
    }

    fn take(dirty: &mut Dirty) -> impl Iterator<Item = ResourceKey> + use<> {
        all(&mut dirty.resources)
    }

    fn count(stats: &mut Stats) -> &mut usize {
        &mut stats.resources
    }

    fn compute(view: &View<'_>, key: &ResourceKey) -> (ResourceState, Vec<Problem>) {
        resource::compute(view, key)
    }
}

/// What flags name.
pub(super) struct FlagsNode;

impl NodeKind for FlagsNode {
    type Key = ();
    type Value = flags::FlagsOutput;

    fn node((): &()) -> TranslationNode {
        TranslationNode::Flags
    }

    fn take(dirty: &mut Dirty) -> impl Iterator<Item = ()> + use<> {
        take(&mut dirty.flags).then_some(()).into_iter()
    }

    fn count(stats: &mut Stats) -> &mut usize {
        &mut stats.settings
    }

    fn compute(view: &View<'_>, (): &()) -> (flags::FlagsOutput, Vec<Problem>) {
        flags::compute(view)
    }
}

/// A host that an object claims.
pub(super) struct HostNode;

impl NodeKind for HostNode {
    type Key = HostKey;
    type Value = host::HostOutput;

    fn node(key: &HostKey) -> TranslationNode {
        TranslationNode::Host(key.clone())
    }

    fn take(dirty: &mut Dirty) -> impl Iterator<Item = HostKey> + use<> {
        all(&mut dirty.hosts)
    }

    fn count(stats: &mut Stats) -> &mut usize {
        &mut stats.hosts
    }

    fn compute(view: &View<'_>, key: &HostKey) -> (host::HostOutput, Vec<Problem>) {
        host::compute(view, key)
    }

    /// A canary without a main Ingress makes no host, but has a problem.
    fn is_kept(output: &host::HostOutput, problems: &[Problem]) -> bool {
        output.host.is_some() || !problems.is_empty()
    }
}

/// The entries of a ConfigMap of TCP or UDP services.
pub(super) struct StreamServicesNode;

impl NodeKind for StreamServicesNode {
    type Key = TransportProtocol;
    type Value = StreamServices;

    fn node(transport: &TransportProtocol) -> TranslationNode {
        TranslationNode::StreamServices(*transport)
    }

    fn take(dirty: &mut Dirty) -> impl Iterator<Item = TransportProtocol> + use<> {
        all(&mut dirty.stream_services)
    }

    fn count(stats: &mut Stats) -> &mut usize {
        &mut stats.settings
    }

    fn compute(view: &View<'_>, transport: &TransportProtocol) -> (StreamServices, Vec<Problem>) {
        streams::read(view, *transport)
    }
}

/// A TCP or UDP service.
pub(super) struct StreamNode;

impl NodeKind for StreamNode {
    type Key = StreamKey;
    type Value = StreamOutput;

    fn node(key: &StreamKey) -> TranslationNode {
        TranslationNode::Stream(*key)
    }

    fn take(dirty: &mut Dirty) -> impl Iterator<Item = StreamKey> + use<> {
        all(&mut dirty.streams)
    }

    fn count(stats: &mut Stats) -> &mut usize {
        &mut stats.streams
    }

    fn compute(view: &View<'_>, key: &StreamKey) -> (StreamOutput, Vec<Problem>) {
        streams::compute(view, key)
    }
}

/// The endpoints of a Service port that a pool uses.
pub(super) struct EndpointsNode;

impl NodeKind for EndpointsNode {
    type Key = EndpointSetKey;
    /// With the name to look up, if the set consists of its addresses.
    type Value = (Arc<EndpointSet>, Option<Arc<str>>);

    fn node(key: &EndpointSetKey) -> TranslationNode {
        TranslationNode::Endpoints(key.clone())
    }

    fn take(dirty: &mut Dirty) -> impl Iterator<Item = EndpointSetKey> + use<> {
        all(&mut dirty.endpoints)
    }

    fn count(stats: &mut Stats) -> &mut usize {
        &mut stats.endpoints
    }

    fn compute(view: &View<'_>, key: &EndpointSetKey) -> (Self::Value, Vec<Problem>) {
        let (set, problems, name) = endpoints::compute(view, key);
        ((set, name), problems)
    }
}

fn all<K: Eq + Hash>(dirty: &mut HashSet<K>) -> impl Iterator<Item = K> + use<K> {
    take(dirty).into_iter()
}
