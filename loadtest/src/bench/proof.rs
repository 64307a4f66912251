//! Evidence that a feature has effect, before the load begins: a proxy that ignored it would be
//! fast.

use anyhow::Context;

use super::feature::Feature;
use super::peer::Peer;
use crate::client::GatewayTarget;

/// A request that the core rule set denies.
const ATTACK: &str = "/search?q=1'%20OR%20'1'='1";
/// A path of the origin whose answers differ.
pub(super) const TICKET: &str = "/ticket";
/// A path of the origin that returns the context of the trace.
pub(super) const CONTEXT: &str = "/traceparent";

impl Feature {
    /// Checks that the feature has effect in a proxy that serves requests.
    ///
    /// # Errors
    /// It has none, or the proxy does not respond.
    pub(super) async fn prove(self, peer: &Peer, proxy: &GatewayTarget) -> anyhow::Result<()> {
        match self {
            Self::CacheHit => {
                let first = proxy.get_once(TICKET).await?;
                let second = proxy.get_once(TICKET).await?;
                anyhow::ensure!(first.body == second.body, "the second response is not from the cache");
            }
            Self::Tracing if matches!(peer, Peer::Sluice(_)) => {
                let context =
                    String::from_utf8(proxy.get_once(CONTEXT).await?.body).context("traceparent")?;
                anyhow::ensure!(context.starts_with("00-"), "requests have no context of a trace");
            }
            Self::Firewall => {
                let status = proxy.get_once_with(ATTACK, &self.field_lines()).await?.status;
                anyhow::ensure!(status == 403, "an attack was answered with {status}");
            }
            _ => {}
        }
        Ok(())
    }
}
