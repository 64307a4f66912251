//! Which certificate a host gets, and what is said where it gets none.

use serde_json::json;
use sluice_config::{HostTls, NamespacedName, Severity};
use sluice_controller::Options;
use sluice_controller::store::Kind;
use sluice_testing::certificate::TestCertificate;

use crate::support::*;

fn tls(world: &World, host: &str) -> Option<Option<String>> {
    let HostTls { certificate, .. } = world.host(host)?.tls.clone()?;
    Some(certificate.map(|id| id.to_string()))
}

fn secured(name: &str, host: &str, entries: serde_json::Value) -> serde_json::Value {
    let mut spec = paths(host, &["/"]);
    spec["tls"] = entries;
    ingress(name, spec)
}

#[test]
fn the_entry_that_names_the_host_else_the_certificate_that_fits() {
    let mut world = World::ready(Options::default());
    let fits = pair(&["shop.example", "*.wild.example"]);
    world.put([
        tls_secret("fits", &fits),
        tls_secret("unfit", &pair(&["other.example"])),
        secured("shop", "shop.example", json!([{"hosts": ["Shop.example"], "secretName": "fits"}])),
        secured("wild", "*.wild.example", json!([{"hosts": ["*.wild.example"], "secretName": "fits"}])),
        secured("by-name", "a.wild.example", json!([{"hosts": ["else.example"], "secretName": "fits"}])),
        secured("plain", "plain.example", json!([{"hosts": ["else.example"], "secretName": "unfit"}])),
        secured("none", "none.example", json!([{"hosts": ["none.example"]}])),
    ]);
    let found = Some(Some("default/fits".to_owned()));
    assert_eq!(tls(&world, "shop.example"), found);
    assert_eq!(tls(&world, "*.wild.example"), found);
    assert_eq!(tls(&world, "a.wild.example"), found);
    assert_eq!(tls(&world, "plain.example"), Some(None), "it has TLS, if only with the default certificate");
    assert_eq!(tls(&world, "none.example"), Some(None));
    let [problem] = &world.problems()[..] else { panic!("{:?}", world.texts()) };
    assert_eq!((problem.severity, &*problem.field), (Severity::Warning, "spec.tls"));
    assert!(problem.message.contains("plain.example"), "{problem}");
    assert_eq!(world.mirror.certificates.len(), 1, "only what is used is sent");
}

#[test]
fn an_unusable_secret_leaves_tls_with_the_default_certificate() {
    let mut world = World::ready(Options::default());
    let entry = json!([{"hosts": ["shop.example"], "secretName": "shop-tls"}]);
    world.put([secured("shop", "shop.example", entry)]);
    assert_eq!(tls(&world, "shop.example"), Some(None));
    assert!(world.texts()[0].contains("Secret default/shop-tls does not exist"), "{:?}", world.texts());
    assert_eq!(world.problems()[0].field, "spec.tls[0].secretName");

    world.put([tls_secret("shop-tls", &pair(&["other.example"]))]);
    assert_eq!(tls(&world, "shop.example"), Some(None));
    assert!(world.texts()[0].contains("not valid for host shop.example, only for other.example"));

    let good = pair(&["shop.example"]);
    world.put([tls_secret("shop-tls", &(good.0.clone(), pair(&["x"]).1))]);
    assert_eq!(tls(&world, "shop.example"), Some(None));
    let texts = world.texts();
    assert!(texts.iter().any(|text| text.contains("Secret default/shop-tls: data[tls.key]")), "{texts:?}");

    let update = world.put([tls_secret("shop-tls", &good)]);
    assert_eq!(tls(&world, "shop.example"), Some(Some("default/shop-tls".into())));
    assert_eq!(world.problems(), []);
    assert!(!update.problems.is_empty());

    let update = world.put([tls_secret("shop-tls", &pair(&["shop.example"]))]);
    let delta = update.delta.unwrap();
    assert_eq!(delta.certificates.len(), 1);
    assert!(delta.hosts.is_empty(), "a renewed certificate is sent alone");
    world.delete(Kind::Secret, "shop-tls");
    assert!(world.mirror.certificates.is_empty());
}

#[test]
fn a_secret_that_becomes_unusable_keeps_its_last_certificate() {
    let default = NamespacedName::new("default", "own");
    let mut world =
        World::ready(Options { default_ssl_certificate: Some(default.clone()), ..Options::default() });
    let entry = json!([{"hosts": ["shop.example"], "secretName": "shop-tls"}]);
    let good = pair(&["shop.example"]);
    world.put([
        tls_secret("shop-tls", &good),
        tls_secret("own", &pair(&["own.example"])),
        secured("shop", "shop.example", entry.clone()),
    ]);
    let before = world.mirror.clone();
    let unusable =
        [(good.0.clone(), pair(&["x"]).1), ("nonsense".into(), good.1.clone()), Default::default()];
    for bad in &unusable {
        let update = world.put([tls_secret("shop-tls", bad), tls_secret("own", bad)]);
        assert_eq!(update.delta, None);
        assert_eq!(world.mirror, before);
        let texts = world.texts();
        for secret in ["default/shop-tls", "default/own"] {
            let text = texts.iter().find(|text| text.contains(&format!("Secret {secret}"))).unwrap();
            assert!(text.contains("its previous certificate stays in force"), "{text}");
        }
        assert_eq!(texts.len(), 2, "{texts:?}");
    }

    world.delete(Kind::Secret, "shop-tls");
    assert_eq!(tls(&world, "shop.example"), Some(None));
    world.put([tls_secret("shop-tls", &unusable[0])]);
    assert_eq!(tls(&world, "shop.example"), Some(None), "forgotten with the Secret");
    assert!(world.texts().iter().all(|text| !text.contains("shop-tls") || !text.contains("previous")));

    world.put([tls_secret("shop-tls", &good)]);
    world.delete(Kind::Ingress, "shop");
    world.put([tls_secret("shop-tls", &unusable[0])]);
    world.put([secured("shop", "shop.example", entry)]);
    assert_eq!(tls(&world, "shop.example"), Some(None), "no object named it in between");
    assert_eq!(world.mirror.settings.default_certificate, Some(default));
}

#[test]
fn an_unusable_secret_keeps_the_certificate_of_the_snapshot() {
    let good = pair(&["shop.example"]);
    let entry = json!([{"hosts": ["shop.example"], "secretName": "shop-tls"}]);
    let shop = secured("shop", "shop.example", entry);
    let mut world = World::ready(Options::default());
    world.put([tls_secret("shop-tls", &good), shop.clone()]);
    let earlier = world.mirror.clone();
    for is_surveyed in [true, false] {
        let mut world = World::new(Options::default());
        let delta = world.controller.startup_snapshot(earlier.clone()).unwrap();
        world.mirror.apply(&delta);
        let class = world.event(class("nginx", "k8s.io/ingress-nginx")).unwrap();
        let mut events = vec![class, world.event(shop.clone()).unwrap()];
        if is_surveyed {
            world.controller.survey(std::mem::take(&mut events)).unwrap();
        }
        events.extend(world.event(tls_secret("shop-tls", &(good.0.clone(), "nonsense".into()))));
        world.update(events);
        assert_eq!(world.mirror.certificates, earlier.certificates);
        assert_eq!(tls(&world, "shop.example"), Some(Some("default/shop-tls".into())));
    }
}

#[test]
fn the_oldest_ingress_with_a_section_for_the_host_decides() {
    let mut world = World::ready(Options::default());
    let entry = |secret: &str| json!([{"hosts": ["shop.example"], "secretName": secret}]);
    world.put([
        tls_secret("one", &pair(&["shop.example"])),
        tls_secret("two", &pair(&["shop.example"])),
        created(ingress("first", paths("shop.example", &["/a"])), 1),
        created(secured("second", "shop.example", entry("two")), 2),
        created(secured("third", "shop.example", entry("one")), 3),
    ]);
    assert_eq!(tls(&world, "shop.example"), Some(Some("default/two".into())));
    let elsewhere = json!([{"hosts": ["else.example"], "secretName": "one"}]);
    world.put([tls_secret("one", &pair(&["else.example"])), secured("zero", "shop.example", elsewhere)]);
    assert_eq!(tls(&world, "shop.example"), Some(Some("default/two".into())));
}

#[test]
fn further_entries_for_a_host_add_certificates_with_other_keys() {
    let mut world = World::ready(Options::default());
    let entry = |secret: &str| json!({"hosts": ["shop.example"], "secretName": secret});
    let rsa = TestCertificate::rsa(&["shop.example"]);
    let all = json!([entry("ecdsa"), entry("again"), entry("missing"), entry("rsa")]);
    world.put([
        tls_secret("ecdsa", &pair(&["shop.example"])),
        tls_secret("again", &pair(&["shop.example"])),
        tls_secret("rsa", &(rsa.pem, rsa.key_pem)),
        created(secured("shop", "shop.example", all), 1),
        // Another owner adds nothing to the host of the first.
        created(secured("other", "shop.example", json!([entry("rsa")])), 2),
    ]);
    let served = |world: &World| {
        let tls = world.host("shop.example").unwrap().tls.clone().unwrap();
        tls.certificates().map(|id| id.name.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(served(&world), ["ecdsa", "rsa"]);
    assert_eq!(world.mirror.certificates.len(), 2, "only what is used is sent");
    let problems: Vec<_> =
        world.problems().into_iter().filter(|problem| problem.field.starts_with("spec.tls")).collect();
    let [problem] = &problems[..] else { panic!("{:?}", world.texts()) };
    assert_eq!(&*problem.field, "spec.tls[2].secretName");
    assert!(problem.message.contains("served with the certificates of its other entries"), "{problem}");
    world.delete(Kind::Secret, "ecdsa");
    assert_eq!(served(&world), ["again", "rsa"]);
    world.delete(Kind::Secret, "again");
    assert_eq!(served(&world), ["rsa"]);
    assert_eq!(world.mirror.certificates.len(), 1, "what is released is removed");
}

#[test]
fn entries_that_do_not_name_the_host_add_certificates_with_other_keys() {
    let mut world = World::ready(Options::default());
    let rsa = TestCertificate::rsa(&["*.example"]);
    let entry = |secret: &str| json!({"hosts": ["*.example"], "secretName": secret});
    world.put([
        tls_secret("other", &pair(&["other.test"])),
        tls_secret("rsa", &(rsa.pem, rsa.key_pem)),
        tls_secret("ecdsa", &pair(&["*.example"])),
        secured("shop", "shop.example", json!([entry("other"), entry("rsa"), entry("ecdsa")])),
    ]);
    let tls = world.host("shop.example").unwrap().tls.clone().unwrap();
    let served: Vec<String> = tls.certificates().map(|id| id.name.to_string()).collect();
    assert_eq!(served, ["rsa", "ecdsa"]);
}

#[test]
fn the_default_certificate_is_taken_up_when_it_is_good() {
    let name = NamespacedName::new("default", "fallback");
    let mut world = World::new(Options { default_ssl_certificate: Some(name.clone()), ..Options::default() });
    world.put([]);
    assert!(
        world.texts()[0]
            .contains("Flag --default-ssl-certificate: default/fallback: this Secret does not exist")
    );
    world.put([tls_secret("fallback", &pair(&["any.example"]))]);
    assert_eq!(world.mirror.settings.default_certificate, Some(name.clone()));
    assert!(world.mirror.certificates.contains_key(&name));
    assert_eq!(world.problems(), []);
    world.delete(Kind::Secret, "fallback");
    assert_eq!(world.mirror.settings.default_certificate, None);
    assert!(world.mirror.certificates.is_empty());
}

#[test]
fn a_host_without_tls_has_https_by_a_wildcard_until_that_loses_its_own() {
    let mut world = World::ready(Options::default());
    let wild =
        secured("wild", "*.wild.example", json!([{"hosts": ["*.wild.example"], "secretName": "wild"}]));
    world.put([
        tls_secret("wild", &pair(&["*.wild.example"])),
        wild.clone(),
        ingress("below", paths("a.wild.example", &["/"])),
        ingress("deeper", paths("a.b.wild.example", &["/"])),
        ingress("other", paths("a.tame.example", &["/"])),
    ]);
    let of = |world: &World| {
        ["*.wild.example", "a.wild.example", "a.b.wild.example", "a.tame.example"]
            .map(|host| has_https(world, host))
    };
    assert_eq!(of(&world), [true, true, false, false]);
    assert_eq!(tls(&world, "a.wild.example"), None, "the handshake falls back to the wildcard");
    let mut more = paths("*.wild.example", &["/", "/more"]);
    more["tls"] = wild["spec"]["tls"].clone();
    assert_eq!(world.put([ingress("wild", more)]).stats.hosts, 1, "hosts below need not be recomputed");
    world.put([ingress("wild", paths("*.wild.example", &["/"]))]);
    assert_eq!(of(&world), [false; 4]);
    world.put([wild]);
    assert_eq!(of(&world), [true, true, false, false]);
    world.delete(Kind::Ingress, "wild");
    assert!(!has_https(&world, "a.wild.example"));
}

fn has_https(world: &World, host: &str) -> bool {
    let found = world.mirror.hosts.values().find(|known| known.key.pattern.to_string() == host);
    found.unwrap_or_else(|| panic!("{host}")).has_https
}

#[test]
fn requests_of_unknown_hosts_have_no_https_although_their_ingress_has_tls() {
    let mut world = World::ready(Options::default());
    let mut any = paths("shop.example", &["/"]);
    any["rules"][0].as_object_mut().unwrap().remove("host");
    any["tls"] = json!([{"secretName": "shop"}]);
    world.put([tls_secret("shop", &pair(&["shop.example"])), ingress("any", any)]);
    assert!(!has_https(&world, "_"));
}

#[test]
fn an_alias_has_https_only_by_a_certificate_that_covers_it() {
    let default = NamespacedName::new("default", "all");
    let mut world = World::ready(Options { default_ssl_certificate: Some(default), ..Options::default() });
    let names = r"www.shop.example, other.example, *.side.example, *.far.example, ~^s[0-9]+\.example$";
    let alias = json!({"nginx.ingress.kubernetes.io/server-alias": names});
    let mut shop = paths("shop.example", &["/"]);
    shop["tls"] = json!([{"hosts": ["shop.example"], "secretName": "shop"}]);
    world.put([
        tls_secret("shop", &pair(&["shop.example", "www.shop.example", "*.side.example"])),
        annotated("shop", alias, shop),
        ingress("below", paths("a.side.example", &["/"])),
        ingress("beside", paths("a.far.example", &["/"])),
    ]);
    let of = |world: &World| {
        let hosts = ["shop.example", "www.shop.example", "*.side.example", "a.side.example"];
        assert!(hosts.iter().all(|host| has_https(world, host)));
        ["other.example", "*.far.example", "a.far.example", r"~^s[0-9]+\.example$"]
            .map(|host| has_https(world, host))
    };
    assert_eq!(of(&world), [false; 4]);
    world.put([tls_secret("all", &pair(&["*.far.example", "other.example"]))]);
    assert_eq!(of(&world), [true, true, true, false], "the default certificate covers them");
}
