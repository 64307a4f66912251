//! Keys of a tracer that ingress-nginx has removed, but its documentation and many ConfigMaps still
//! contain.

use super::Key;
use crate::translate::value;

pub(super) fn settings() -> Vec<Key> {
    vec![
        leftover("jaeger-collector-host"),
        leftover("jaeger-collector-port"),
        leftover("jaeger-endpoint"),
        leftover("jaeger-service-name"),
        leftover("jaeger-propagation-format"),
        leftover("jaeger-sampler-type"),
        leftover("jaeger-sampler-param"),
        leftover("jaeger-sampler-host"),
        leftover("jaeger-sampler-port"),
        leftover("jaeger-trace-context-header-name"),
        leftover("jaeger-debug-header"),
        leftover("jaeger-baggage-header"),
        leftover("jaeger-trace-baggage-header-prefix"),
    ]
}

fn leftover(name: &'static str) -> Key {
    let reason = "it belonged to OpenTracing, which ingress-nginx removed";
    Key::no_effect(name, value::text(), "", reason, "Leftover of OpenTracing.").absent_in_reference()
}
