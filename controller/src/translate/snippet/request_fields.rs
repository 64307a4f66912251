//! Fields of requests to endpoints, and the order of their changes.

use sluice_config::directives::{FieldChange, FieldOperation};

/// Fields that ingress-nginx sets itself, and the gateway too.
pub(super) const OF_GATEWAY: [&str; 10] = [
    "x-request-id",
    "x-real-ip",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-port",
    "x-forwarded-proto",
    "x-forwarded-scheme",
    "x-scheme",
    "x-original-forwarded-for",
    "x-original-forwarded-host",
];

/// Turns changes from this position on into further values of the fields that earlier ones set.
pub(super) fn repeat(changes: &mut [FieldChange], from: usize) {
    let (earlier, later) = changes.split_at_mut(from);
    for FieldChange { name, operation } in later {
        if let FieldOperation::Set(value) = operation
            && earlier.iter().any(|known| known.name == *name)
        {
            *operation = FieldOperation::Append(value.clone());
        }
    }
}
