//! Certificates with their expiry and the hosts that use them.

use askama::Template;

use super::listing::{Listing, passes};
use super::overview::expires_in;
use super::{Frame, Input};
use crate::admin::format;
use crate::admin::view::{self, CertificateView};

/// Number of names and hosts shown of a certificate.
const NAMES: usize = 5;

#[derive(Template)]
#[template(path = "certificates.html")]
pub(super) struct CertificatesPage {
    frame: Frame,
    listing: Listing,
    rows: Vec<Row>,
}

struct Row {
    secret: String,
    names: String,
    issuer: String,
    algorithm: String,
    expires: String,
    left: String,
    class: &'static str,
    used_by: String,
}

pub(super) fn page(input: &Input<'_>, frame: Frame) -> CertificatesPage {
    let configuration = input.state.configuration.load();
    let settings = input.state.settings();
    let filter = input.parameters.filter();
    let mut all = view::certificates(&configuration, &settings);
    all.retain(|one| {
        let hosts = one.hosts.iter().map(String::as_str);
        let texts: Vec<&str> = one.names.iter().copied().chain(hosts).chain([&*one.secret]).collect();
        passes(&filter, &texts)
    });
    // What needs attention comes first.
    all.sort_by(|one, other| (one.not_after, &one.secret).cmp(&(other.not_after, &other.secret)));
    let (listing, shown) = input.parameters.page(all, &[]);
    CertificatesPage { frame, listing, rows: shown.iter().map(row).collect() }
}

fn row(one: &CertificateView<'_>) -> Row {
    let (class, left) = expires_in(one.not_after);
    let default = one.is_default.then(|| "hosts without a certificate (default)".to_owned());
    let used_by: Vec<String> = default.into_iter().chain(one.hosts.iter().cloned()).collect();
    Row {
        secret: one.secret.clone(),
        names: first(&one.names),
        issuer: one.issuer_common_name.unwrap_or("-").to_owned(),
        algorithm: one.public_key_algorithm.to_owned(),
        expires: format::unix(one.not_after),
        left,
        class,
        used_by: if used_by.is_empty() { "nothing".to_owned() } else { first(&used_by) },
    }
}

/// Returns the first names and the number of the others.
fn first(names: &[impl AsRef<str>]) -> String {
    let shown: Vec<&str> = names.iter().take(NAMES).map(AsRef::as_ref).collect();
    match names.len().saturating_sub(NAMES) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_names_the_first_are_shown() {
        assert_eq!(first(&["a", "b"]), "a, b");
        assert_eq!(first(&["a", "b", "c", "d", "e", "f", "g"]), "a, b, c, d, e and 2 more");
        assert_eq!(first(&[] as &[&str]), "");
    }
}
