//! Hop counter of requests, which ends forwarding loops.
//!
//! A Service whose endpoints are the gateway's own address, or another proxy in front of it, would
//! forward each request in a circle until connections or descriptors run out. Therefore every
//! request to an endpoint carries a hop count in a field of its own, and a request with too many
//! hops is answered with 508. The count is read before the fields named by `Connection` are
//! removed, and set after that, so a client cannot have it removed on the way.
//!
//! RFC 9110 §7.6.3 defines `Via` for this purpose, but `Via` changes the behaviour of endpoints
//! (nginx, for example, stops compressing), and ingress-nginx does not send it. A client that sends
//! the field itself can only reduce its own number of hops.

use http::header::{HeaderName, HeaderValue};

use crate::message::fields::Fields;
use crate::message::fields::FieldsMut;

/// The field that carries the count.
pub(super) static X_SLUICE_HOPS: HeaderName = HeaderName::from_static("x-sluice-hops");

/// Maximum number of gateways on the path of a request. Services that call each other through the
/// gateway and pass on all received fields also form chains, but shorter ones.
pub const MAX: u8 = 16;

/// The counts as strings, so that no number is formatted per request.
const TEXTS: [&str; MAX as usize] =
    ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16"];

/// Returns the hop count of a request; 0 if the field is not a number.
pub fn count(head: &impl Fields) -> u8 {
    let text = head.first(&X_SLUICE_HOPS).and_then(|value| str::from_utf8(value).ok());
    // A number that is too large counts as too many hops, not as none.
    text.filter(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
        .map_or(0, |text| text.parse().unwrap_or(u8::MAX))
}

/// Sets the count of a request that passed `before` other gateways.
pub fn apply(head: &mut impl FieldsMut, before: u8) {
    let text = TEXTS[usize::from(before.min(MAX - 1))];
    head.set(&X_SLUICE_HOPS, &HeaderValue::from_static(text));
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    #[test]
    fn each_gateway_counts_itself() {
        let mut head = HeaderMap::new();
        assert_eq!(count(&head), 0);
        for hops in 1..=MAX {
            let before = count(&head);
            apply(&mut head, before);
            assert_eq!(count(&head), hops);
        }
        let before = count(&head);
        apply(&mut head, before);
        assert_eq!(count(&head), MAX);
    }

    #[test]
    fn a_forged_hop_count_only_reduces_the_hops() {
        for (text, expected) in
            [("", 0), ("-1", 0), ("+3", 0), ("x", 0), ("007", 7), ("255", 255), ("99999", 255)]
        {
            let head: HeaderMap =
                [(X_SLUICE_HOPS.clone(), HeaderValue::from_static(text))].into_iter().collect();
            assert_eq!(count(&head), expected, "{text}");
        }
        let mut head = HeaderMap::new();
        head.append(X_SLUICE_HOPS.clone(), HeaderValue::from_static("x"));
        head.append(X_SLUICE_HOPS.clone(), HeaderValue::from_static("y"));
        apply(&mut head, 0);
        assert_eq!(head.get_all(&X_SLUICE_HOPS).iter().collect::<Vec<_>>(), ["1"]);
    }
}
