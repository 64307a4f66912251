//! What is spoken to the endpoints. A value that is no protocol at all means HTTP, as in ingress-nginx; one
//! that Sluice does not speak yet closes the routes, since HTTP would reach the wrong thing.

use sluice_config::UpstreamProtocol;

use super::Settings;
use crate::translate::setting::{Fault, Risk, Setting};
use crate::translate::value::{self, Value};

const PROTOCOLS: &[&str] = &["HTTP", "HTTPS", "AUTO_HTTP", "GRPC", "GRPCS", "FCGI"];

pub(super) static SETTINGS: &[Setting<Settings>] = &[Setting::served(
    "backend-protocol",
    Value::OneOf(PROTOCOLS),
    "HTTP",
    "Protocol spoken to the endpoints; HTTP, HTTPS, GRPC and GRPCS are served, certificates not verified.",
    |text, settings: &mut Settings| {
        settings.protocol = match value::one_of(PROTOCOLS, text)? {
            "HTTP" => UpstreamProtocol::Http,
            "HTTPS" => UpstreamProtocol::HttpsUnverified,
            "GRPC" => UpstreamProtocol::Grpc,
            "GRPCS" => UpstreamProtocol::GrpcsUnverified,
            _ => return Err(Fault::NotYet),
        };
        Ok(())
    },
)
.location(Risk::Low)
.invalid_means_default()];
