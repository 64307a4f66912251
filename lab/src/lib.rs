//! A real Kubernetes API on one machine, without containers.
//!
//! etcd, kube-apiserver, kube-controller-manager and kube-scheduler are built from pinned Go
//! modules and run in a network namespace without a route out. Nodes are processes of this crate
//! that run each Pod's containers as plain processes in a namespace with a Pod address. Tests
//! against a lab therefore meet real rollouts, real EndpointSlices, real draining and real outages,
//! and never a mock of the API.
//!
//! | module | one job |
//! |---|---|
//! | [`name`], [`layout`], [`addresses`] | the names, paths and addresses of a lab |
//! | [`programs`] | the pinned Go programs and the cache they are built into |
//! | [`network`], [`process`], [`pki`] | namespaces, programs of a lab, certificates |
//! | `disk` | the space on the disk of a lab |
//! | [`control_plane`], [`lab`] | the API and its controllers; a lab from `up` to `down` |
//! | [`node`] | the Pod runner |
//! | [`allocator`], [`forwarder`] | addresses of LoadBalancer Services, and relays from them |
//! | `cluster_ips`, `datagrams`, `backends` | relays from Service addresses, and their endpoints |
//! | `transparent` | connections to Pods that come from the client's address |
//! | [`names`] | DNS for Pods, and for the hosts of Ingresses |
//! | [`faults`], [`wire`] | fault injection |
//! | [`images`], [`echo`] | the programs of Pods |
//! | [`monitor`], [`container_root`] | the environment of a container's program |
//! | [`client`], [`exchange`] | clients of the API and of plain HTTP |
//! | [`harness`] | the harness of cluster tests |
//!
//! Errors are `anyhow` throughout: people read them at a terminal or in a failed test, and no
//! caller distinguishes them.

pub mod addresses;
pub mod allocator;
mod backends;
pub mod client;
mod cluster_ips;
pub mod container_root;
pub mod control_plane;
mod datagrams;
mod disk;
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
