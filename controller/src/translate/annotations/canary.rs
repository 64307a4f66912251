//! An Ingress that takes a share of the requests of another one.

use super::Settings;
use crate::translate::setting::{NotYet, Risk, Setting};
use crate::translate::value::Value;

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::not_yet("canary", Value::Bool, "false", NotYet::StandsAside, "Marks this Ingress as the alternative backend of a non-canary Ingress with the same host, path and pathType.").ingress(Risk::Low).invalid_means_default(),
    Setting::not_yet("canary-by-cookie", Value::Text, "", NotYet::Harmless, "Cookie whose value always or never chooses the side.").ingress(Risk::Medium),
    Setting::not_yet("canary-by-header", Value::Text, "", NotYet::Harmless, "Header whose value always or never chooses the side.").ingress(Risk::Medium),
    Setting::not_yet("canary-by-header-pattern", Value::Text, "", NotYet::Harmless, "Regular expression on the header that chooses the canary.").ingress(Risk::Medium),
    Setting::not_yet("canary-by-header-value", Value::Text, "", NotYet::Harmless, "Value of the header that chooses the canary.").ingress(Risk::Medium),
    Setting::not_yet("canary-weight", Value::Count, "0", NotYet::Harmless, "Share of the requests, out of canary-weight-total.").ingress(Risk::Low),
    Setting::not_yet("canary-weight-total", Value::Count, "100", NotYet::Harmless, "What canary-weight is a share of.").ingress(Risk::Low),
];
