//! Keys of a tracer that ingress-nginx no longer has; its documentation, and hence ConfigMaps, still do.

use super::Settings;
use crate::translate::setting::Setting;
use crate::translate::value::Value;

pub(super) static SETTINGS: &[Setting<Settings>] = &[
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
];

const fn leftover(name: &'static str) -> Setting<Settings> {
    let reason = "it belonged to OpenTracing, which is gone";
    Setting::no_effect(name, Value::Text, "", reason, "Leftover of OpenTracing.")
}
