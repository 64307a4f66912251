//! `sluice.dev/allow-countries` and `sluice.dev/deny-countries`: access control by the country of
//! the client's address.

use sluice_config::Countries;

use super::sources::SourceDecision;
use crate::location::Country;

/// Checks a client's country against the lists of a rule. A client without a country is on no list;
/// without a database, it is refused.
pub fn decide(lists: &Countries, country: Country) -> SourceDecision {
    let on = |list: &Option<_>| {
        list.as_deref().map(|list: &[_]| matches!(country, Country::Known(code) if list.contains(&code)))
    };
    match (on(&lists.deny), on(&lists.allow)) {
        _ if country == Country::NoDatabase => SourceDecision::Denied,
        (Some(true), _) | (_, Some(false)) => SourceDecision::Denied,
        (_, Some(true)) => SourceDecision::Allowed,
        (_, None) => SourceDecision::Unlisted,
    }
}

#[cfg(test)]
mod tests {
    use sluice_testing::mmdb;

    use super::*;
    use crate::location::{LocationFiles, Locations};

    fn lists(allow: Option<&str>, deny: Option<&str>) -> Countries {
        let list = |text: Option<&str>| Some([text?.parse().unwrap()].into());
        Countries { allow: list(allow), deny: list(deny) }
    }

    #[test]
    fn lists_refuse_everyone_without_a_database() {
        let locations = Locations::default();
        for lists in [lists(Some("DE"), None), lists(None, Some("DE"))] {
            let country = locations.country([192, 0, 2, 1].into());
            assert_eq!(decide(&lists, country), SourceDecision::Denied);
        }
        assert_eq!(locations.look(), [], "no client was refused");
        locations.miss();
        let problem = locations.look()[0].to_string();
        assert!(problem.contains("use-geoip2") && problem.contains("refuse all clients"), "{problem}");
    }

    #[test]
    fn a_client_is_refused_by_its_country() {
        let folder = tempfile::tempdir().unwrap();
        let database = mmdb::country("192.0.2.0/24", "DE");
        std::fs::write(folder.path().join("GeoLite2-Country.mmdb"), database).unwrap();
        let locations = Locations::default();
        let files =
            LocationFiles { folder: folder.path().to_owned(), editions: vec!["GeoLite2-Country".into()] };
        locations.set_files(files);
        locations.switch(true);
        let (german, unknown) = ([192, 0, 2, 1], [198, 51, 100, 1]);
        for (allow, deny, client, decision) in [
            (Some("DE"), None, german, SourceDecision::Allowed),
            (Some("FR"), None, german, SourceDecision::Denied),
            (Some("DE"), None, unknown, SourceDecision::Denied),
            (None, Some("DE"), german, SourceDecision::Denied),
            (None, Some("FR"), german, SourceDecision::Unlisted),
            (None, Some("DE"), unknown, SourceDecision::Unlisted),
            (Some("DE"), Some("DE"), german, SourceDecision::Denied),
        ] {
            let decided = decide(&lists(allow, deny), locations.country(client.into()));
            assert_eq!(decided, decision, "allow {allow:?}, deny {deny:?}, {client:?}");
        }
        assert_eq!(locations.look(), []);
    }
}
