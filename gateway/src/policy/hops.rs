//! How many gateways a request has come through, so that one that leads back to this gateway comes to an end.
//!
//! A Service whose endpoints are a gateway's own address, or another proxy in front of it, sends each request round
//! until connections or descriptors run out. So every request that goes to an endpoint carries a count in a field of
//! its own, and one that has been through too many gateways is answered with 508. The count is read before the
//! fields that `Connection` names are dropped and set after it, so that no client can have it removed on the way.
//!
//! `Via` is the field that RFC 9110 §7.6.3 has for this, but endpoints behave differently when they see one (nginx,
//! for one, stops compressing), and ingress-nginx sends none. A client that sends our field itself can only shorten
//! its own way.

use http::header::{HeaderName, HeaderValue};

use crate::message::fields::Fields;
use crate::message::fields::FieldsMut;

/// The field.
pub(super) static X_SLUICE_HOPS: HeaderName = HeaderName::from_static("x-sluice-hops");

/// Gateways that a request may come through. Programs that call one another through the gateway and pass on all
/// fields that they got make chains too; those are not as long.
pub const MAX: u8 = 16;

/// The counts, as texts: nothing is formatted for a request.
const TEXTS: [&str; MAX as usize] =
    ["1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16"];

/// How many gateways a request says it has come through; what is no number counts as none.
pub fn count(head: &impl Fields) -> u8 {
    let text = head.first(&X_SLUICE_HOPS).and_then(|value| str::from_utf8(value).ok());
    // More digits than a count of ours has are too many hops, not none.
    text.filter(|text| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()))
        .map_or(0, |text| text.parse().unwrap_or(u8::MAX))
}

/// Counts this gateway in, on a request that came through `before` others.
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
    fn what_a_client_makes_up_only_shortens_its_way() {
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
