//! `allowlist-source-range`, `denylist-source-range` and the `allow` and `deny` of snippets: access
//! control by client address.

use std::net::IpAddr;

use super::directives::AccessList;
use super::networks::Networks;

/// The lists of a rule or the global ones. A list that a rule lacks is inherited from the global
/// settings.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    allow: Option<Networks>,
    deny: Option<Networks>,
}

impl Sources {
    /// Compiles the lists. Returns `None` if there are none.
    pub fn compile(sources: &sluice_config::Sources) -> Option<Self> {
        let sluice_config::Sources { allow, deny } = sources;
        let set = |networks: &Option<_>| networks.as_deref().map(Networks::compile);
        let compiled = Self { allow: set(allow), deny: set(deny) };
        (compiled.allow.is_some() || compiled.deny.is_some()).then_some(compiled)
    }
}

/// Result of the check of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceDecision {
    /// No list applies.
    Unlisted,
    /// The allow list contains the address.
    Allowed,
    /// The deny list contains the address, or the allow list does not.
    Denied,
}

impl SourceDecision {
    /// Combines the decisions of two kinds of lists, of which each must admit the client.
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Denied, _) | (_, Self::Denied) => Self::Denied,
            (Self::Allowed, _) | (_, Self::Allowed) => Self::Allowed,
            (Self::Unlisted, Self::Unlisted) => Self::Unlisted,
        }
    }
}

/// Checks an address against the lists of the rule, or the global lists that it inherits, and then
/// against the directives of the rule: in nginx, all of them are one list, in this order.
pub fn decide(
    own: Option<&Sources>,
    global: Option<&Sources>,
    directives: Option<&AccessList>,
    client: IpAddr,
) -> SourceDecision {
    let both = [own, global];
    let deny = both.iter().find_map(|sources| sources.as_ref()?.deny.as_ref());
    let allow = both.iter().find_map(|sources| sources.as_ref()?.allow.as_ref());
    if deny.is_some_and(|networks| networks.contains(client)) {
        return SourceDecision::Denied;
    }
    let by_list = allow.map(|networks| networks.contains(client));
    match by_list.or_else(|| directives?.admits(client)) {
        None => SourceDecision::Unlisted,
        Some(true) => SourceDecision::Allowed,
        Some(false) => SourceDecision::Denied,
    }
}

#[cfg(test)]
mod tests {
    use sluice_config::Network;
    use sluice_config::directives::AccessRule;

    use super::*;

    fn sources(allow: Option<&str>, deny: Option<&str>) -> Option<Sources> {
        let networks = |text: &str| [Network { address: text.parse().unwrap(), prefix: 24 }].into();
        Sources::compile(&sluice_config::Sources { allow: allow.map(networks), deny: deny.map(networks) })
    }

    fn of(own: Option<&Sources>, global: Option<&Sources>, last: u8) -> SourceDecision {
        decide(own, global, None, IpAddr::from([10, 0, last, 1]))
    }

    #[test]
    fn only_an_allow_list_admits_clients() {
        let (allow, deny) = (sources(Some("10.0.1.0"), None), sources(None, Some("10.0.1.0")));
        assert_eq!(of(None, None, 1), SourceDecision::Unlisted);
        assert_eq!(of(deny.as_ref(), None, 2), SourceDecision::Unlisted);
        assert_eq!(of(allow.as_ref(), None, 1), SourceDecision::Allowed);
    }

    #[test]
    fn directives_decide_after_the_lists() {
        let rule = |network: Option<&str>, allows| AccessRule {
            network: network.map(|text| Network { address: text.parse().unwrap(), prefix: 24 }),
            allows,
        };
        let directives = AccessList::compile(&[rule(Some("10.0.1.0"), true), rule(None, false)]);
        let (allow, deny) = (sources(Some("10.0.2.0"), None), sources(None, Some("10.0.1.0")));
        let of = |own: &Option<Sources>, last| {
            decide(own.as_ref(), None, Some(&directives), IpAddr::from([10, 0, last, 1]))
        };
        assert_eq!([of(&None, 1), of(&None, 2)], [SourceDecision::Allowed, SourceDecision::Denied]);
        assert_eq!([of(&allow, 1), of(&allow, 2)], [SourceDecision::Denied, SourceDecision::Allowed]);
        assert_eq!([of(&deny, 1), of(&deny, 2)], [SourceDecision::Denied; 2]);
    }

    #[test]
    fn the_deny_list_wins_and_the_rule_replaces_each_list_by_itself() {
        let admits = |own: &Option<Sources>, global: &Option<Sources>, last| {
            of(own.as_ref(), global.as_ref(), last) != SourceDecision::Denied
        };
        assert!(admits(&None, &None, 1));
        let own = sources(Some("10.0.1.0"), None);
        assert!(admits(&own, &None, 1) && !admits(&own, &None, 2));
        let both = sources(Some("10.0.1.0"), Some("10.0.1.0"));
        assert!(!admits(&both, &None, 1));
        let global = sources(Some("10.0.2.0"), Some("10.0.1.0"));
        assert!(admits(&None, &global, 2) && !admits(&None, &global, 3));
        assert!(!admits(&own, &global, 1), "the global deny list holds");
        assert!(!admits(&own, &global, 2), "the global allow list does not");
    }
}
