//! How a rule calls FastCGI endpoints: ingress-nginx `fastcgi-index` and
//! `fastcgi-params-configmap`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::resource::ResourceKey;

/// `$document_root` of ingress-nginx: the folder that nginx is built with, since no key sets
/// another.
pub const DOCUMENT_ROOT: &str = "/usr/local/nginx/html";

/// Settings for FastCGI endpoints.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FastCgi {
    /// Name that is appended to a path that ends with a slash (`fastcgi-index`).
    pub index: Option<Arc<str>>,
    /// Parameters besides the default ones: a resource of kind `FastCgiParams`. The rule is closed
    /// while that resource is absent.
    pub params: Option<ResourceKey>,
    /// Whether endpoints are asked to keep the connection after a request (nginx's
    /// `fastcgi_keep_conn`).
    pub keeps_connections: bool,
}
