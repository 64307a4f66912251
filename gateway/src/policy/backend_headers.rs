//! `upstream-vhost`, `connection-proxy-header` and `custom-headers`: header fields set by a rule.

use std::sync::Arc;

use http::header::{CONNECTION, HOST, HeaderValue, UPGRADE};
use sluice_config::ConnectionHeader;

use super::error::PolicyError;
use super::header_set::HeaderSet;
use super::resources::{ResourceSlot, Resources};
use super::template::Template;
use crate::message::fields::FieldsMut;

/// Compiled header settings of a rule.
#[derive(Debug)]
pub struct BackendHeaders {
    host: Option<HostField>,
    connection: Option<ConnectionHeader>,
    /// Fields that are added to every response.
    pub response: Option<Arc<ResourceSlot<HeaderSet>>>,
}

#[derive(Debug)]
enum HostField {
    Fixed(HeaderValue),
    Template(Template),
}

impl BackendHeaders {
    /// Compiles the policy.
    ///
    /// # Errors
    /// The host is not a valid field value, or the key refers to a resource of another kind.
    pub fn compile(
        headers: &sluice_config::BackendHeaders,
        resources: &Resources,
    ) -> Result<Self, PolicyError> {
        let sluice_config::BackendHeaders { host, connection, response } = headers;
        let host = match host.as_ref().map(Template::compile).transpose()? {
            Some(template) if template.is_plain() => {
                let value = HeaderValue::from_bytes(&template.text());
                Some(HostField::Fixed(value.map_err(|_| PolicyError::HeaderValue("Host".to_owned()))?))
            }
            template => template.map(HostField::Template),
        };
        let response = response.as_ref().map(|key| resources.headers(key)).transpose()?;
        Ok(Self { host, connection: *connection, response })
    }

    /// Returns the template of `Host`, if its value differs per request.
    pub fn host_template(&self) -> Option<&Template> {
        match &self.host {
            Some(HostField::Template(template)) => Some(template),
            _ => None,
        }
    }

    /// Returns whether a connection to the endpoint serves only one request.
    pub fn closes(&self) -> bool {
        self.connection == Some(ConnectionHeader::Close)
    }

    /// Edits the head of a request to an endpoint. `filled` is the evaluated host template, if
    /// there is one. A custom `Connection` field ends upgrades, as in nginx, because it does not
    /// contain `upgrade`.
    pub fn request(&self, head: &mut impl FieldsMut, filled: Option<&HeaderValue>) {
        let fixed = match &self.host {
            Some(HostField::Fixed(host)) => Some(host),
            _ => None,
        };
        if let Some(host) = fixed.or(filled) {
            head.set(&HOST, host);
        }
        let Some(connection) = self.connection else { return };
        head.remove(&UPGRADE);
        match connection {
            ConnectionHeader::KeepAlive => head.set(&CONNECTION, &HeaderValue::from_static("keep-alive")),
            // The engine sends `Connection: close` itself, because it does not reuse the
            // connection.
            ConnectionHeader::Close => head.remove(&CONNECTION),
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    #[test]
    fn a_connection_field_of_ones_own_ends_upgrades() {
        for (connection, expected) in
            [(ConnectionHeader::KeepAlive, Some("keep-alive")), (ConnectionHeader::Close, None)]
        {
            let headers = sluice_config::BackendHeaders {
                connection: Some(connection),
                ..sluice_config::BackendHeaders::default()
            };
            let headers = BackendHeaders::compile(&headers, &Resources::default()).unwrap();
            let mut head = HeaderMap::new();
            head.insert(UPGRADE, HeaderValue::from_static("websocket"));
            head.insert(CONNECTION, HeaderValue::from_static("upgrade"));
            head.insert(HOST, HeaderValue::from_static("a.example"));
            headers.request(&mut head, None);
            assert_eq!(head.get(CONNECTION).map(|value| value.to_str().unwrap()), expected);
            assert!(!head.contains_key(UPGRADE));
            assert_eq!(head[HOST], "a.example");
            assert_eq!(headers.closes(), expected.is_none());
        }
    }
}
