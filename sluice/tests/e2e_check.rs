//! `sluice check`: what would be wrong, without serving.

use crate::harness::gateway::run;
use crate::harness::{Backend, Folder, Ingress, site};

fn check(folder: &Folder, flags: &[&str]) -> (Option<i32>, String) {
    let mut words = vec!["check", "--manifests", folder.path().to_str().unwrap()];
    words.extend(flags);
    let output = run(&words);
    (output.status.code(), String::from_utf8(output.stdout).unwrap())
}

#[test]
fn a_good_folder_passes() {
    let backend = Backend::echo("shop");
    let (status, text) = check(&Folder::with(site("shop", "shop.example", &[&backend])), &[]);
    assert_eq!(status, Some(0), "{text}");
}

#[test]
fn every_problem_is_named_by_object_with_what_to_do() {
    let folder = Folder::with(
        Ingress::new("nobackend").path("a.example", "/", "missing").text()
            + &Ingress::new("badvalue")
                .path("b.example", "/", "missing")
                .annotation("proxy-read-timeout", "long")
                .text(),
    );
    folder.write("broken.yaml", "kind: [");
    let (status, text) = check(&folder, &[]);
    assert_eq!(status, Some(1), "{text}");
    for part in ["default/nobackend", "missing", "default/badvalue", "proxy-read-timeout", "broken.yaml"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn problems_depend_on_the_flags() {
    let backend = Backend::echo("shop");
    let folder = Folder::with(site("shop", "shop.example", &[&backend]));
    let (status, text) = check(&folder, &["--configmap", "ingress-nginx/missing"]);
    assert!(text.contains("ingress-nginx/missing"), "{status:?}: {text}");
}
