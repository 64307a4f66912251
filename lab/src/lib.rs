//! A real Kubernetes API on one machine, without containers.
//!
//! etcd, kube-apiserver, kube-controller-manager and kube-scheduler are built from pinned Go modules and run in a
//! network namespace with no route out. Nodes are processes of this crate that run each Pod's containers as plain
//! processes in a namespace with a Pod address, so that what is tested against the lab meets real rollouts, real
//! EndpointSlices, real draining and real outages, and never a mock of the API.
//!
//! | module | one job |
//! |---|---|
//! | [`name`], [`layout`], [`addresses`] | what a lab is called, where its files are, which addresses it uses |
//! | [`programs`] | the pinned Go programs and the cache they are built into |
//! | [`network`], [`process`], [`pki`] | namespaces, programs that outlive their starter, certificates |
//! | [`control_plane`], [`lab`] | the API and its controllers; a lab from `up` to `down` |
//! | [`node`] | the Pod runner |
//! | [`allocator`], [`forwarder`] | addresses for LoadBalancer Services, and what answers on them |
//! | `cluster_ips`, `datagrams`, `backends` | what answers on the addresses of Services, over TCP and UDP, and which endpoints those have |
//! | `transparent` | connections to Pods that come from the client's address |
//! | [`names`] | DNS for Pods, and for the hosts of Ingresses |
//! | [`faults`], [`wire`] | fault injection |
//! | [`images`], [`echo`] | what Pods run |
//! | [`monitor`], [`container_root`] | what a container's program runs in |
//! | [`client`], [`exchange`] | speaking to the API, and plain HTTP |
//! | [`harness`] | what cluster tests are written with |
//!
//! Errors are `anyhow` throughout: they are read by a person at a terminal or in a failed test, and no caller decides
//! by their kind.

pub mod addresses;
pub mod allocator;
mod backends;
pub mod client;
mod cluster_ips;
pub mod container_root;
pub mod control_plane;
mod datagrams;
pub mod echo;
pub mod exchange;
pub mod faults;
pub mod forwarder;
pub mod harness;
pub mod images;
pub mod lab;
pub mod layout;
#[cfg(test)]
mod module_cycles;
pub mod monitor;
pub mod name;
pub mod names;
pub mod network;
pub mod node;
pub mod pki;
pub mod process;
pub mod programs;
mod transparent;
pub mod wire;
