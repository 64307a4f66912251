//! The name for which the certificate of an endpoint must be valid (`proxy-ssl-name`), with
//! variables.

use std::sync::Arc;

use rustls_pki_types::ServerName;
use sluice_config::{Moment, NamespacedName, Template, TemplatePiece, Variable};

use super::template;

/// The name for one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum EndpointName {
    /// The same for all requests.
    Fixed(Arc<str>),
    /// Requests determine it.
    PerRequest(Template),
}

/// Validates a name. One with variables stays as text until the host and Service of a rule are
/// known.
pub(crate) fn read_endpoint_name(text: Arc<str>) -> Result<Arc<str>, String> {
    let template = template::parse(&text, Moment::Request)?;
    if let Some(reasons) = template::without_value(&text, Moment::Request) {
        return Err(format!("has a variable without a value: {reasons}"));
    }
    let example = |piece: &TemplatePiece| match piece {
        TemplatePiece::Text(text) => text.clone(),
        TemplatePiece::Variable(_) => "x".into(),
    };
    let pieces: Vec<Arc<str>> = template.pieces.iter().map(example).collect();
    match ServerName::try_from(pieces.concat()) {
        Ok(_) => Ok(text),
        Err(_) => Err("is neither a DNS name nor an address, which no certificate can be for".to_owned()),
    }
}

/// Replaces the variables of a `proxy-ssl-name` that one rule determines. `host` and `server_name`
/// differ for an alias, and are `None` for a wildcard host. The error completes "the value ...".
pub(crate) fn endpoint_name(
    text: &str,
    host: Option<&str>,
    server_name: Option<&str>,
    service: &str,
    object: &NamespacedName,
) -> Result<EndpointName, String> {
    let known = |host: Option<&str>| match host {
        Some(host) => TemplatePiece::Text(host.into()),
        None => TemplatePiece::Variable(Variable::Host),
    };
    let mut pieces = Vec::new();
    for piece in template::parse(text, Moment::Request)?.pieces {
        pieces.push(match piece {
            // nginx has no single name for a server of a wildcard either.
            TemplatePiece::Variable(Variable::ServerName) => known(server_name),
            TemplatePiece::Variable(Variable::Host) => known(host),
            TemplatePiece::Variable(Variable::ServiceName) => TemplatePiece::Text(service.into()),
            TemplatePiece::Variable(Variable::Namespace) => TemplatePiece::Text(object.namespace.clone()),
            TemplatePiece::Variable(Variable::IngressName) => TemplatePiece::Text(object.name.clone()),
            piece => piece,
        });
    }
    let texts = pieces.iter().map(|piece| match piece {
        TemplatePiece::Text(text) => Some(&**text),
        TemplatePiece::Variable(_) => None,
    });
    Ok(match texts.collect::<Option<String>>() {
        Some(name) => EndpointName::Fixed(name.into()),
        None => EndpointName::PerRequest(Template { pieces }),
    })
}
