//! Detection of clients that misinterpret `SameSite=None`: they drop the cookie or treat it as
//! `Strict`. Detected by `User-Agent` as in ingress-nginx (after Chromium's list of incompatible
//! clients).

use http::header::USER_AGENT;
use memchr::memmem;

use crate::message::fields::Fields;

/// Returns whether the client that sent these fields is incompatible.
pub fn misreads_none(headers: &impl Fields) -> bool {
    headers.first(&USER_AGENT).is_some_and(is_listed)
}

fn is_listed(agent: &[u8]) -> bool {
    let has = |text: &str| memmem::find(agent, text.as_bytes()).is_some();
    // Chrome 51 to 66. The patterns match a few older and newer versions, which are no longer in
    // use.
    has("Chrome/4")
        || has("Chrome/5")
        || has("Chrome/6")
        || has("CPU iPhone OS 12")
        || has("iPad; CPU OS 12")
        || (has("Macintosh") && has("Intel Mac OS X 10_14") && has("Safari") && !has("Chrome"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_chrome_and_safari_are_listed_and_newer_versions_are_not() {
        let mac = "Mozilla/5.0 (Macintosh; Intel Mac OS X 10_14_6) AppleWebKit/605.1.15 (KHTML, like Gecko)";
        for (agent, listed) in [
            ("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/59.0.3071.115 Safari/537.36", true),
            ("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/80.0.3987.87 Safari/537.36", false),
            ("Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/131.0.0.0 Safari/537.36", false),
            (
                "Mozilla/5.0 (iPhone; CPU iPhone OS 12_4 like Mac OS X) Version/12.1.2 Mobile Safari/604.1",
                true,
            ),
            (
                "Mozilla/5.0 (iPhone; CPU iPhone OS 13_3 like Mac OS X) Version/13.0 Mobile Safari/604.1",
                false,
            ),
            ("Mozilla/5.0 (iPad; CPU OS 12_0 like Mac OS X) Version/12.0 Safari/604.1", true),
            (&*format!("{mac} Version/12.1.2 Safari/605.1.15"), true),
            (&*format!("{mac} Chrome/85.0 Safari/605.1.15"), false),
            ("curl/8", false),
        ] {
            assert_eq!(is_listed(agent.as_bytes()), listed, "{agent}");
        }
    }
}
