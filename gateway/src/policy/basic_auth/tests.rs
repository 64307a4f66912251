use std::sync::Arc;

use base64::Engine;
use http::HeaderMap;
use http::header::{AUTHORIZATION, HeaderValue};
use sluice_config::{Change, Delta, NamespacedName, Resource, ResourceKey, ResourceKind};

use super::*;
use crate::message::parts::BASE64;

fn key() -> ResourceKey {
    ResourceKey { kind: ResourceKind::PasswordFile, name: NamespacedName::new("shop", "users") }
}

fn bytes<const N: usize>(hex: &str) -> [u8; N] {
    let byte = |at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap();
    std::array::from_fn(byte)
}

fn md5(apache: bool, digest: &str) -> PasswordHash {
    PasswordHash::Md5Crypt { apache, salt: "saltsalt".into(), digest: bytes(digest) }
}

struct Door {
    resources: Resources,
    policy: BasicAuth,
    verified: Arc<Verified>,
}

impl Door {
    fn new(realm: &str) -> Self {
        let resources = Resources::default();
        let policy = sluice_config::BasicAuth { credentials: key(), realm: realm.into() };
        let policy = BasicAuth::compile(&policy, &resources).unwrap();
        Self { resources, policy, verified: Arc::new(Verified::new()) }
    }

    fn users(&self, users: &[(&str, PasswordHash)]) {
        let users = users.iter().map(|(name, hash)| ((*name).into(), hash.clone())).collect();
        let resource = Arc::new(Resource::Credentials(Credentials { users }));
        let delta = Delta { resources: vec![Change::Put(key(), resource)], ..Delta::default() };
        assert_eq!(self.resources.apply(&delta), []);
    }

    fn try_value(&self, value: Option<&str>) -> PasswordDecision {
        let mut fields = HeaderMap::new();
        fields.extend(value.map(|value| (AUTHORIZATION, HeaderValue::from_str(value).unwrap())));
        self.policy.access(&fields, &self.verified)
    }

    fn try_pair(&self, pair: &str) -> PasswordDecision {
        self.try_value(Some(&format!("Basic {}", BASE64.encode(pair))))
    }
}

fn word(access: &PasswordDecision) -> &'static str {
    match access {
        PasswordDecision::Granted => "granted",
        PasswordDecision::Denied => "denied",
        PasswordDecision::Closed => "closed",
        PasswordDecision::Unknown(_) => "unknown",
    }
}

#[test]
fn known_passwords_match_and_others_do_not() {
    let sha256 = "6eefae0a82084424cd99dd563ad2acfef76902d2fed888d0bcc889030ba9dcec";
    for (hash, known) in [
        (md5(true, "8c14104ca006f5f248e0361c136ac8fc"), "open sesame".to_owned()),
        (md5(true, "c71dbafb32f5226ef4412349a6c113e5"), String::new()),
        (md5(true, "c6da9ff6192db38259baebc16755899a"), "x".repeat(200)),
        (md5(false, "e44a8aa83d398d45f0393f5e249d5afe"), "open sesame".to_owned()),
        (md5(false, "d897ad6f0554f975370b3414a6107685"), "x".repeat(200)),
        (
            PasswordHash::ShaCrypt {
                rounds: 5000,
                salt: "saltsalt".into(),
                digest: bytes::<32>(sha256).into(),
            },
            "open sesame".to_owned(),
        ),
        (
            PasswordHash::Sha1 {
                digest: bytes("5baa61e4c9b93f3f0682250b6cf8331b7ee68fd8"),
                salt: Vec::new(),
            },
            "password".to_owned(),
        ),
        (PasswordHash::Plain("open sesame".into()), "open sesame".to_owned()),
    ] {
        assert!(password::matches(&hash, known.as_bytes()), "{known}");
        assert!(!password::matches(&hash, format!("{known}x").as_bytes()), "{known}");
    }
}

#[test]
fn bcrypt_looks_at_72_bytes_as_crypt_does() {
    let salt = [7; 16];
    let hash = |password: &[u8]| PasswordHash::Bcrypt {
        cost: 4,
        salt,
        digest: bcrypt::bcrypt(4, salt, password)[..23].try_into().unwrap(),
    };
    assert!(password::matches(&hash(b"secret\0"), b"secret"));
    assert!(!password::matches(&hash(b"secret\0"), b"secret\0"));
    let long = [b'x'; 80];
    assert!(password::matches(&hash(&long[..72]), &long));
    let absurd = PasswordHash::Bcrypt { cost: 40, salt, digest: [0; 23] };
    assert!(!password::matches(&absurd, b"secret"));
}

#[test]
fn no_client_is_admitted_without_users() {
    let door = Door::new("shop");
    assert_eq!(word(&door.try_pair("ann:x")), "closed");
    door.users(&[("ann", PasswordHash::Plain("x".into()))]);
    assert_eq!(word(&door.try_pair("ann:x")), "granted");
    door.resources.remove(&Delta { resources: vec![Change::Remove(key())], ..Delta::default() });
    assert_eq!(word(&door.try_pair("ann:x")), "closed");
}

#[test]
fn malformed_credentials_are_challenged() {
    let door = Door::new("shop");
    door.users(&[("ann", PasswordHash::Plain("a:b".into())), ("bob", PasswordHash::Plain("".into()))]);
    assert_eq!(word(&door.try_value(None)), "denied");
    for value in ["", "Basic", "Basic ", "Basic !!!", "Bearer YW5uOmE6Yg==", "Basic YW5u", "YW5uOmE6Yg=="] {
        assert_eq!(word(&door.try_value(Some(value))), "denied", "{value}");
    }
    for value in ["Basic YW5uOmE6Yg==", "basic YW5uOmE6Yg==", "BASIC   YW5uOmE6Yg"] {
        assert_eq!(word(&door.try_value(Some(value))), "granted", "{value}");
    }
    assert_eq!(word(&door.try_pair("bob:")), "granted");
    for pair in ["ann", "ann:", "ann:a", "eve:a:b", "ANN:a:b", ":", ""] {
        assert_eq!(word(&door.try_pair(pair)), "denied", "{pair}");
    }
}

#[test]
fn a_slow_check_is_done_once_and_again_after_the_password_has_changed() {
    let door = Door::new("shop");
    let hashes = ["8c14104ca006f5f248e0361c136ac8fc", "c71dbafb32f5226ef4412349a6c113e5"];
    door.users(&[("ann", md5(true, hashes[0])), ("bob", md5(true, hashes[0]))]);
    let check = |pair: &str| match door.try_pair(pair) {
        PasswordDecision::Unknown(verification) => verification.run(),
        other => panic!("{}", word(&other)),
    };
    assert!(check("ann:open sesame"));
    assert_eq!(word(&door.try_pair("ann:open sesame")), "granted");
    assert!(!check("ann:guess"));
    assert_eq!(word(&door.try_pair("ann:guess")), "denied");
    assert_eq!(word(&door.try_pair("eve:open sesame")), "denied");
    assert_eq!(word(&door.try_pair(&format!("ann:{}", "x".repeat(LONGEST + 1)))), "denied");

    door.users(&[("ann", md5(true, hashes[1])), ("bob", md5(true, hashes[0]))]);
    assert!(!check("ann:open sesame"), "what was right before is looked at again");
    assert!(check("ann:"));
    assert_eq!(word(&door.try_pair("bob:open sesame")), "granted", "who did not change need not wait");
}

#[test]
fn concurrent_checks_of_one_password_compute_it_once() {
    let door = Door::new("shop");
    door.users(&[("ann", md5(true, "8c14104ca006f5f248e0361c136ac8fc"))]);
    let (PasswordDecision::Unknown(first), PasswordDecision::Unknown(mut second)) =
        (door.try_pair("ann:open sesame"), door.try_pair("ann:open sesame"))
    else {
        panic!()
    };
    assert!(first.run());
    // A second computation would use this other hash.
    second.hash = PasswordHash::Plain("other".into());
    assert!(second.run());
}

#[test]
fn a_realm_is_quoted_and_one_that_no_field_can_carry_is_refused() {
    assert_eq!(
        Door::new("the \"inner\" \\ shop").policy.challenge(),
        "Basic realm=\"the \\\"inner\\\" \\\\ shop\""
    );
    assert_eq!(Door::new("").policy.challenge(), "Basic realm=\"\"");
    let policy = sluice_config::BasicAuth { credentials: key(), realm: "a\nb".into() };
    assert!(BasicAuth::compile(&policy, &Resources::default()).is_err());
}
