//! The name for which the certificate of an endpoint must be valid (`proxy-ssl-name`), with
//! variables.

use std::sync::Arc;

use rustls_pki_types::ServerName;
use sluice_config::{Moment, NamespacedName, Piece, Variable};

use crate::translate::template;

/// Validates a name. One with variables stays as text until the host and Service of a rule are
/// known.
pub(crate) fn read_endpoint_name(text: Arc<str>) -> Result<Arc<str>, String> {
    let read = match text.contains('$') {
        false => text.to_string(),
        true => endpoint_name(&text, Some("host"), "service", &NamespacedName::new("namespace", "ingress"))?,
    };
    match ServerName::try_from(read) {
        Ok(_) => Ok(text),
        Err(_) => Err("is neither a DNS name nor an address, which no certificate can be for".to_owned()),
    }
}

/// Replaces the variables of a `proxy-ssl-name` for one rule. `host` is `None` for a wildcard host.
/// The error completes "the value ...".
pub(crate) fn endpoint_name(
    text: &str,
    host: Option<&str>,
    service: &str,
    object: &NamespacedName,
) -> Result<String, String> {
    let mut name = String::new();
    for piece in template::parse(text, Moment::Request)?.pieces {
        name += match &piece {
            Piece::Text(text) => text,
            Piece::Variable(Variable::Host | Variable::ServerName) => {
                host.ok_or("has the host as a part, and a wildcard host has no single name")?
            }
            Piece::Variable(Variable::ServiceName) => service,
            Piece::Variable(Variable::Namespace) => &object.namespace,
            Piece::Variable(Variable::IngressName) => &object.name,
            Piece::Variable(_) => return Err("has a variable that differs between requests".to_owned()),
        };
    }
    Ok(name)
}
