//! The web application firewall.

use super::super::value::Destination::To;
use super::super::value::Value::{Duration, Listen};
use super::{Flag, flag};

pub(super) const FLAGS: &[Flag] = &[
    flag(
        "waf-agent",
        Listen(To(|f| &mut f.controller.waf_agent)),
        "",
        "Address of the agent that runs the directives of ModSecurity, by Envoy's ext_proc; empty for none (docs/waf.md)",
    ),
    flag(
        "waf-timeout",
        Duration(To(|f| &mut f.gateway.waf_timeout)),
        "1s",
        "Time limit for each decision of the agent; without one in time, the rules that enforce answer 503",
    ),
];
