//! Answers to pages of other origins.

use super::Settings;
use crate::translate::setting::{NotYet, Risk, Setting};
use crate::translate::value::Value;

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::not_yet("enable-cors", Value::Bool, "false", NotYet::ChangesAnswers, "Switches the CORS block on.").ingress(Risk::Low),
    Setting::not_yet("cors-allow-credentials", Value::Bool, "true", NotYet::Harmless, "Access-Control-Allow-Credentials of the answer.").ingress(Risk::Low),
    Setting::not_yet("cors-allow-headers", Value::List, "DNT,Keep-Alive,User-Agent,X-Requested-With,If-Modified-Since,Cache-Control,Content-Type,Range,Authorization", NotYet::Harmless, "Access-Control-Allow-Headers of the answer.").ingress(Risk::Medium),
    Setting::not_yet("cors-allow-methods", Value::List, "GET, PUT, POST, DELETE, PATCH, OPTIONS", NotYet::Harmless, "Access-Control-Allow-Methods of the answer.").ingress(Risk::Medium),
    Setting::not_yet("cors-allow-origin", Value::List, "*", NotYet::Harmless, "Origins that may read answers, or * for all.").ingress(Risk::Medium),
    Setting::not_yet("cors-expose-headers", Value::List, "", NotYet::Harmless, "Access-Control-Expose-Headers of the answer.").ingress(Risk::Medium),
    Setting::not_yet("cors-max-age", Value::Int, "1728000", NotYet::Harmless, "Access-Control-Max-Age on preflight.").ingress(Risk::Low),
];
