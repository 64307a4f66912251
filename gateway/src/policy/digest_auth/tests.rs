use http::HeaderMap;
use sluice_config::{Change, Delta, NamespacedName, Resource, ResourceKey, ResourceKind};

use super::*;

/// The user, realm and password of the examples in RFC 7616 §3.9.1.
const USER: &str = "Mufasa";
const REALM: &str = "http-auth@example.org";
const PASSWORD: &str = "Circle of Life";

struct Door {
    policy: DigestAuth,
    nonces: Nonces,
    resources: Resources,
}

fn key() -> ResourceKey {
    ResourceKey { kind: ResourceKind::DigestFile, name: NamespacedName::new("shop", "users") }
}

fn ha1<const N: usize>(algorithm: Algorithm) -> [u8; N] {
    let text = algorithm.hex(&[format!("{USER}:{REALM}:{PASSWORD}").as_bytes()]);
    std::array::from_fn(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).unwrap())
}

impl Door {
    fn new() -> Self {
        let resources = Resources::default();
        let policy = sluice_config::DigestAuth { credentials: key(), realm: REALM.into() };
        let door = Self {
            policy: DigestAuth::compile(&policy, &resources).unwrap(),
            nonces: Nonces::new(),
            resources,
        };
        door.users(vec![(USER.into(), ha1(Algorithm::Md5))], vec![(USER.into(), ha1(Algorithm::Sha256))]);
        door
    }

    fn users(&self, md5: Vec<(Arc<str>, [u8; 16])>, sha256: Vec<(Arc<str>, [u8; 32])>) {
        let realm = DigestRealm { name: REALM.into(), md5, sha256 };
        let users = Resource::Digests(DigestCredentials { realms: vec![realm] });
        let resources = vec![Change::Put(key(), Arc::new(users))];
        assert_eq!(self.resources.apply(&Delta { resources, ..Delta::default() }), []);
    }

    fn access(&self, method: &str, target: &str, authorization: &str) -> DigestAccess {
        let mut fields = HeaderMap::new();
        fields.insert(AUTHORIZATION, authorization.parse().unwrap());
        self.policy.access(method, target, &fields, &self.nonces)
    }
}

/// Returns the `Authorization` value of a client that has the password.
fn authorization(algorithm: Algorithm, password: &str, nonce: &str, count: u32) -> String {
    let known = algorithm.hex(&[format!("{USER}:{REALM}:{password}").as_bytes()]);
    let request = algorithm.hex(&[b"GET:/dir/index.html"]);
    let digest = algorithm.hex(&[format!("{known}:{nonce}:{count:08x}:0a4f113b:auth:{request}").as_bytes()]);
    format!(
        "Digest username=\"{USER}\", realm=\"{REALM}\", nonce=\"{nonce}\", uri=\"/dir/index.html\", \
         algorithm={}, response=\"{digest}\", qop=auth, nc={count:08x}, cnonce=\"0a4f113b\"",
        algorithm.name()
    )
}

#[test]
fn the_digests_are_those_of_the_rfc() {
    let door = Door::new();
    for (algorithm, digest) in [
        ("MD5", "8ca523f5e9506fed4657c9700eebdbec"),
        ("SHA-256", "753927fa0e85d155564e2e272a28d1802ca10daf4496794697cf8db5856cb6c1"),
    ] {
        let value = format!(
            "Digest username=\"Mufasa\", realm=\"http-auth@example.org\", uri=\"/dir/index.html\", \
             algorithm={algorithm}, nonce=\"7ypf/xlj9XXwfDPEoM4URrv/xwf94BcCAzFZH4GiTo0v\", nc=00000001, \
             cnonce=\"f2/wE4q74E6zIJEtWaHKaf5wv/H5QzzpXusqGemxURZJ\", qop=auth, response=\"{digest}\", \
             opaque=\"FQhe/qaU925kfnzjCev0ciny7QMkPqMAFRtzCUYo5tdS\""
        );
        let stale = DigestAccess::Denied { stale: true };
        assert_eq!(
            door.access("GET", "/dir/index.html", &value),
            stale,
            "right, with a nonce that is not ours"
        );
        let wrong = DigestAccess::Denied { stale: false };
        assert_eq!(door.access("POST", "/dir/index.html", &value), wrong, "another method");
        assert_eq!(door.access("GET", "/dir/other.html", &value), wrong, "another target");
        assert_eq!(door.access("GET", "/dir/index.html", &value.replace("Mufasa", "Simba")), wrong);
        assert_eq!(door.access("GET", "/dir/index.html", &value.replace(&digest[..2], "00")), wrong);
    }
}

#[test]
fn the_password_is_accepted_and_a_replayed_request_is_not() {
    let door = Door::new();
    for algorithm in [Algorithm::Md5, Algorithm::Sha256] {
        let nonce = door.nonces.issue();
        let send = |password: &str, count| {
            door.access("GET", "/dir/index.html", &authorization(algorithm, password, &nonce, count))
        };
        assert_eq!(send("Hakuna Matata", 1), DigestAccess::Denied { stale: false });
        assert_eq!(send(PASSWORD, 1), DigestAccess::Granted, "a wrong password uses nothing up");
        assert_eq!(send(PASSWORD, 1), DigestAccess::Denied { stale: true });
        assert_eq!(send(PASSWORD, 2), DigestAccess::Granted);
    }
}

#[test]
fn the_stored_digests_determine_the_challenges() {
    let door = Door::new();
    let offered = || -> Vec<String> {
        let challenges = door.policy.challenges(&door.nonces, true);
        challenges.iter().map(|value| value.to_str().unwrap().to_owned()).collect()
    };
    let both = offered();
    assert_eq!(both.len(), 2);
    assert!(both[0].starts_with("Digest realm=\"http-auth@example.org\", qop=\"auth\", algorithm=SHA-256, "));
    assert!(both[1].contains("algorithm=MD5") && both[1].ends_with(", stale=true"), "{both:?}");
    door.users(vec![(USER.into(), ha1(Algorithm::Md5))], Vec::new());
    assert_eq!(offered().len(), 1);
    let nonce = door.nonces.issue();
    let sha256 = authorization(Algorithm::Sha256, PASSWORD, &nonce, 1);
    assert_eq!(door.access("GET", "/dir/index.html", &sha256), DigestAccess::Denied { stale: false });
    let delta = Delta { resources: vec![Change::Remove(key())], ..Delta::default() };
    door.resources.remove(&delta);
    let md5 = authorization(Algorithm::Md5, PASSWORD, &nonce, 1);
    assert_eq!(door.access("GET", "/dir/index.html", &md5), DigestAccess::Closed);
    assert_eq!(offered().len(), 0);
}
