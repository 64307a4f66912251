//! Header fields that rules must not set.

/// Names of the gateway's own header fields, in lower case, sorted: framing (RFC 9112 §6),
/// connection options (RFC 9110 §7.6.1), `Expect` (§10.1.1), routing, and the loop counter. The
/// control plane rejects rules that name them, and the data plane never lets a rule change them.
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

/// Returns whether `name`, in any case, is one of the gateway's own fields.
pub fn is_own_field(name: &str) -> bool {
    OWN_FIELDS.iter().any(|own| own.eq_ignore_ascii_case(name))
}
