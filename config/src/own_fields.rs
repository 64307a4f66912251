//! Fields of heads that no rule may name.

/// Names of fields that belong to the gateway, in lower case and in order: framing (RFC 9112 §6), what concerns one
/// connection (RFC 9110 §7.6.1), the conversation about a body (§10.1.1), routing, and the count that ends loops. The
/// control plane refuses rules that name them, and the data plane cannot be made to change them.
pub const OWN_FIELDS: [&str; 14] = [
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "max-forwards",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "x-sluice-hops",
];

/// Whether a field of this name, in any case, belongs to the gateway.
pub fn is_own_field(name: &str) -> bool {
    OWN_FIELDS.iter().any(|own| own.eq_ignore_ascii_case(name))
}
