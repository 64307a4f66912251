//! Routes: the hosts and paths of each object, and their backends.
//!
//! The sources of routes (`ingress`) convert objects to [`ObjectRoutes`]; hosts are computed from
//! these, independent of the kind of object.

mod affinity;
mod canary;
pub(crate) mod claim;
mod closure;
pub(crate) mod host;
mod object_routes;
mod rewriting;

pub(crate) use affinity::{Affinity, can_be_attribute};
pub(crate) use canary::CanarySettings;
pub(crate) use closure::{HostClosure, REJECTED, UNABLE};
pub(crate) use object_routes::{HostRoutes, ObjectRoutes, RouteSettings, RuleRoutes, has_tls, path_field};
pub(crate) use rewriting::{GroupText, RewriteError, RewriteTarget, Rewriting};
