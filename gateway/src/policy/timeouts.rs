//! `proxy-connect-timeout`, `proxy-read-timeout` and `proxy-send-timeout`.

use std::time::Duration;

use sluice_config::Timeout;

use crate::policy::bounds::LONGEST;

/// Returns the rule's limit, or the global one if the rule has none. `None` is no limit.
pub fn resolve(own: Timeout, global: Duration) -> Option<Duration> {
    resolve_optional(own, Some(global))
}

/// Like [`resolve`], for a limit that is off by default.
pub fn resolve_optional(own: Timeout, global: Option<Duration>) -> Option<Duration> {
    match own {
        Timeout::Inherit => global,
        Timeout::Off => None,
        Timeout::After(limit) => Some(limit.min(LONGEST)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_may_inherit_switch_off_or_set() {
        let global = Duration::from_secs(60);
        assert_eq!(resolve(Timeout::Inherit, global), Some(global));
        assert_eq!(resolve(Timeout::Off, global), None);
        assert_eq!(resolve(Timeout::After(Duration::from_secs(1)), global), Some(Duration::from_secs(1)));
        assert_eq!(resolve_optional(Timeout::Inherit, None), None);
        assert_eq!(resolve(Timeout::After(Duration::MAX), global), Some(LONGEST));
    }
}
