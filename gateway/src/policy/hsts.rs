//! HTTP Strict Transport Security (RFC 6797): `hsts`, `hsts-max-age`, `hsts-include-subdomains` and
//! `hsts-preload`. Set on every response over https; replaces the endpoint's field.

use http::HeaderValue;
use sluice_config::Hsts;

/// Returns the value of `Strict-Transport-Security`.
pub fn value(hsts: &Hsts) -> HeaderValue {
    let mut text = format!("max-age={}", hsts.max_age);
    if hsts.include_subdomains {
        text.push_str("; includeSubDomains");
    }
    if hsts.preload {
        text.push_str("; preload");
    }
    // Cannot fail: digits and fixed words form a valid value.
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("max-age=31536000"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_has_the_reference_form() {
        let mut hsts = Hsts { max_age: 31_536_000, include_subdomains: true, preload: false };
        assert_eq!(value(&hsts), "max-age=31536000; includeSubDomains");
        hsts.preload = true;
        assert_eq!(value(&hsts), "max-age=31536000; includeSubDomains; preload");
        hsts = Hsts { max_age: 5, include_subdomains: false, preload: false };
        assert_eq!(value(&hsts), "max-age=5");
    }
}
