//! The URL of an external gateway.

use std::net::IpAddr;
use std::str::FromStr;

use anyhow::Context;
use tokio::net::lookup_host;

/// Scheme, host and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GatewayUrl {
    scheme: &'static str,
    /// A DNS name, or an address without brackets.
    name: String,
    port: Option<u16>,
}

impl FromStr for GatewayUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || {
            format!(
                "{text:?} is not the URL of a gateway: write http://ADDRESS[:PORT] or https://ADDRESS[:PORT]"
            )
        };
        let (scheme, rest) = match text.split_once("://") {
            Some(("http", rest)) => ("http", rest),
            Some(("https", rest)) => ("https", rest),
            _ => return Err(form()),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (name, port) = match rest.strip_prefix('[') {
            Some(rest) => rest.split_once(']').ok_or_else(form)?,
            None => rest.split_at(rest.find(':').unwrap_or(rest.len())),
        };
        let port = match port.strip_prefix(':') {
            Some(port) => Some(port.parse().map_err(|_| form())?),
            None if port.is_empty() => None,
            None => return Err(form()),
        };
        if name.is_empty() || name.contains(['/', '?', '#', '@']) {
            return Err(form());
        }
        Ok(Self { scheme, name: name.to_owned(), port })
    }
}

impl GatewayUrl {
    /// Returns the target URL for the scripts. k6 can map a host to an address but not to another
    /// name, so if another host is requested, the name is resolved here.
    ///
    /// # Errors
    /// The name has no address.
    pub async fn for_host(&self, host: Option<&str>) -> anyhow::Result<String> {
        let address = match (self.name.parse::<IpAddr>(), host) {
            (Ok(address), _) => Some(address),
            (Err(_), Some(host)) if host != self.name => {
                let port = self.port.unwrap_or_default();
                let mut found = lookup_host((self.name.as_str(), port))
                    .await
                    .with_context(|| format!("cannot look up {}", self.name))?;
                let first = found.next().with_context(|| format!("{} has no address", self.name))?;
                Some(first.ip())
            }
            (Err(_), _) => None,
        };
        let place = match address {
            Some(IpAddr::V6(address)) => format!("[{address}]"),
            Some(IpAddr::V4(address)) => address.to_string(),
            None => self.name.clone(),
        };
        let port = self.port.map(|port| format!(":{port}")).unwrap_or_default();
        Ok(format!("{}://{place}{port}", self.scheme))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_address_or_the_name_itself_stays_as_it_is() {
        for text in ["http://127.0.0.1:8080", "https://[::1]:8443", "https://shop.example"] {
            let target: GatewayUrl = text.parse().unwrap();
            assert_eq!(target.for_host(None).await.unwrap(), text);
        }
        let target: GatewayUrl = "https://shop.example/".parse().unwrap();
        assert_eq!(target.for_host(Some("shop.example")).await.unwrap(), "https://shop.example");
    }

    #[tokio::test]
    async fn another_name_is_looked_up() {
        let target: GatewayUrl = "http://localhost:8080".parse().unwrap();
        let found = target.for_host(Some("shop.example")).await.unwrap();
        assert!(["http://127.0.0.1:8080", "http://[::1]:8080"].contains(&found.as_str()), "{found}");
    }

    #[test]
    fn an_invalid_target_is_explained() {
        for text in
            ["shop.example", "ftp://shop.example", "http://", "http://a/b", "http://a:b", "http://[::1]x"]
        {
            assert!(text.parse::<GatewayUrl>().unwrap_err().contains("write http://"), "{text}");
        }
    }
}
