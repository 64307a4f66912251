//! `allow` and `deny` in order: the first network that contains the client decides.

use std::net::IpAddr;

use sluice_config::directives::AccessRule;

use crate::policy::networks::Networks;

/// The rules of one location.
#[derive(Debug, Default)]
pub struct AccessList(Box<[(Option<Networks>, bool)]>);

impl AccessList {
    /// Compiles the rules.
    pub(in crate::policy) fn compile(rules: &[AccessRule]) -> Self {
        let rules = rules.iter().map(|rule| {
            let networks = rule.network.map(|network| Networks::compile(&[network]));
            (networks, rule.allows)
        });
        Self(rules.collect())
    }

    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a client is admitted; `None` if no rule applies to it.
    pub fn admits(&self, client: IpAddr) -> Option<bool> {
        let contains = |networks: &Option<Networks>| networks.as_ref().is_none_or(|all| all.contains(client));
        self.0.iter().find(|(networks, _)| contains(networks)).map(|(_, allows)| *allows)
    }
}

#[cfg(test)]
mod tests {
    use sluice_config::Network;

    use super::*;

    #[test]
    fn the_first_network_that_contains_the_client_decides() {
        let rule = |network: Option<(&str, u8)>, allows| AccessRule {
            network: network.map(|(address, prefix)| Network { address: address.parse().unwrap(), prefix }),
            allows,
        };
        let list = AccessList::compile(&[
            rule(Some(("10.0.0.1", 32)), false),
            rule(Some(("10.0.0.0", 8)), true),
            rule(None, false),
        ]);
        let admits = |client: &str| list.admits(client.parse().unwrap());
        assert_eq!(admits("10.0.0.1"), Some(false));
        assert_eq!(admits("10.0.0.2"), Some(true));
        assert_eq!(admits("192.0.2.1"), Some(false));
        assert_eq!(admits("2001:db8::1"), Some(false));
        assert_eq!(AccessList::default().admits("10.0.0.1".parse().unwrap()), None);
    }
}
