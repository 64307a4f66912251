//! `sluice check`: reports problems without serving.

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
fn every_problem_is_named_with_its_objects_and_what_to_do() {
    let folder = Folder::with(
        Ingress::new("nobackend").path("a.example", "/", "missing").text()
            + &Ingress::new("badvalue")
                .path("b.example", "/", "missing")
                .annotation("limit-rps", "many")
                .text(),
    );
    folder.write("broken.yaml", "kind: [");
    let (status, text) = check(&folder, &[]);
    assert_eq!(status, Some(1), "{text}");
    for part in ["default/nobackend", "missing", "default/badvalue", "limit-rps", "broken.yaml"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn programs_get_every_problem_with_its_code_and_class() {
    let folder = Folder::with(
        Ingress::new("shop").path("a.example", "/", "missing").annotation("limit-rps", "many").text(),
    );
    let (status, text) = check(&folder, &["-o", "json"]);
    assert_eq!(status, Some(1), "{text}");
    let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
    let problems = answer["problems"].as_array().unwrap();
    let codes: Vec<_> = problems.iter().map(|problem| (&problem["code"], &problem["class"])).collect();
    for (code, class) in [("AnnotationInvalid", "own-fault"), ("ServiceNotFound", "missing-reference")] {
        assert!(codes.contains(&(&code.into(), &class.into())), "{text}");
    }
    assert_eq!(problems[0]["object"]["name"], "shop");
    assert_eq!(answer["served"]["hosts"], 1);
    let (_, text) = check(&folder, &[]);
    assert!(text.contains("[ServiceNotFound]"), "{text}");
}

#[test]
fn a_problem_of_many_objects_is_printed_once_with_all_of_them() {
    let ingresses: String = (0..12)
        .map(|number| {
            let ingress =
                Ingress::new(&format!("i{number:02}")).path(&format!("h{number}.example"), "/", "shop");
            ingress.annotation("http2-push-preload", "true").text()
        })
        .collect();
    let backend = Backend::echo("shop");
    let folder = Folder::with(site("shop", "shop.example", &[&backend]) + &ingresses);
    let (status, text) = check(&folder, &[]);
    assert_eq!(status, Some(0), "{text}");
    let name = "nginx.ingress.kubernetes.io/http2-push-preload";
    let lines: Vec<&str> = text.lines().filter(|line| line.contains(name)).collect();
    assert_eq!(lines, [format!("warning: {name} [AnnotationWithoutEffect]: 12 objects")], "{text}");
    assert!(
        text.lines().take(4).any(|line| line == "problems: 0 errors, 12 warnings in 12 objects"),
        "{text}"
    );
    assert!(
        text.contains("    Ingress default/i00, default/i01, ") && text.contains(", and 2 more\n"),
        "{text}"
    );
    assert!(text.ends_with("problems: 0 errors, 12 warnings in 12 objects\n"), "{text}");

    let (status, text) = check(&folder, &["-o", "json"]);
    assert_eq!(status, Some(0), "{text}");
    let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&answer["errors"], &answer["warnings"]), (&0.into(), &12.into()));
    let group = &answer["groups"][0];
    assert_eq!((&group["subject"], &group["objects"]), (&name.into(), &12.into()));
    assert_eq!(answer["problems"].as_array().unwrap().len(), 12, "each of them all the same");

    let (status, page) = check(&folder, &["-o", "markdown"]);
    assert_eq!(status, Some(0), "{page}");
    assert!(
        page.contains(&format!("| warning | `{name}` | AnnotationWithoutEffect | 12 | 12 |\n")),
        "{page}"
    );
    assert!(page.contains("  - Ingress default/i11\n"), "{page}");

    assert_eq!(check(&folder, &["--strict"]).0, Some(1), "a warning is one too many");
}

#[test]
fn a_long_report_begins_with_counts() {
    let mut folder = String::new();
    for number in 0..12 {
        let ingress = Ingress::new(&format!("i{number:02}")).path(&format!("h{number}.example"), "/", "none");
        folder += &ingress.annotation("http2-push-preload", "true").text();
    }
    let bad = Ingress::new("bad").path("bad.example", "/", "none").annotation("limit-rps", "many");
    let (status, text) = check(&Folder::with(folder + &bad.text()), &[]);
    assert_eq!(status, Some(1), "{text}");
    let head: Vec<&str> = text.lines().take(10).collect();
    assert_eq!(head[0], "read: 13 Ingress, 1 IngressClass", "{text}");
    assert_eq!(head[2], "problems: 14 errors in 13 objects, 12 warnings in 12 objects", "{text}");
    assert_eq!(head[3], "");
    assert!(
        head[4].starts_with("error    13 objects  spec.rules") && head[4].ends_with("[ServiceNotFound]"),
        "{text}"
    );
    assert_eq!(
        head[5], "error    1 object    nginx.ingress.kubernetes.io/limit-rps [AnnotationInvalid]",
        "{text}"
    );
    assert!(head[6].starts_with("warning  12 objects  nginx.ingress.kubernetes.io/http2-push-pre"), "{text}");
    assert!(head[8].contains("-o json all"), "some are not named below: {text}");
    assert_eq!((head[7], head[9]), ("", ""), "then the object and its problem: {text}");
    assert!(text.ends_with(&format!("\n{}\n", head[2])), "{text}");
}

#[test]
fn problems_depend_on_the_flags() {
    let backend = Backend::echo("shop");
    let folder = Folder::with(site("shop", "shop.example", &[&backend]));
    let (status, text) = check(&folder, &["--configmap", "ingress-nginx/missing"]);
    assert!(text.contains("ingress-nginx/missing"), "{status:?}: {text}");
}

#[test]
fn the_exit_code_is_0_for_warnings_1_for_errors_2_without_input() {
    let backend = Backend::echo("shop");
    let with = |name: &str, value: &str| {
        let ingress = Ingress::new("noted").path("a.example", "/", "shop").annotation(name, value);
        Folder::with(site("shop", "shop.example", &[&backend]) + &ingress.text())
    };
    let (status, text) = check(&with("http2-push-preload", "true"), &[]);
    assert!(status == Some(0) && text.contains("warning: "), "{status:?}: {text}");
    let (status, text) = check(&with("limit-rps", "many"), &[]);
    assert!(status == Some(1) && text.contains("error: "), "{status:?}: {text}");
    assert_eq!(run(&["check", "--manifests", "/nonexistent"]).status.code(), Some(2));
    assert_eq!(run(&["check"]).status.code(), Some(2));
    let help = String::from_utf8(run(&["--help"]).stdout).unwrap();
    assert!(
        help.contains("exits with 1 when one is an error, or when responses differ, with 0 otherwise"),
        "{help}"
    );
}

#[test]
fn values_that_the_chart_refuses_exit_with_1() {
    let backend = Backend::echo("shop");
    let folder = Folder::with(site("shop", "shop.example", &[&backend]));
    let values = tempfile::NamedTempFile::new().unwrap();
    let check = |text: &str| {
        std::fs::write(values.path(), text).unwrap();
        check(&folder, &["--values", values.path().to_str().unwrap()])
    };
    for (text, field) in [
        ("dhParam: abc", "dhParam"),
        ("controller: {config: {enable-vts-status: 'false'}}", "controller.config.enable-vts-status"),
        ("controller: {config: {main-snippet: env A;}}", "controller.config.main-snippet"),
        ("controller: {extraArgs: {profiling: 'false'}}", "controller.extraArgs.profiling"),
        ("controller: {extraArgs: {htp-port: '81'}}", "controller.extraArgs.htp-port"),
        ("controller: {replicaCont: 2}", "controller.replicaCont"),
    ] {
        let (status, report) = check(text);
        assert_eq!(status, Some(1), "{text}: {report}");
        assert!(report.contains(&format!("error: {field} [ValueNotServed]")), "{report}");
        assert!(!report.contains("is ignored") && !report.contains("or accept"), "{report}");
    }
    let (status, report) = check("controller: {admissionWebhooks: {patch: {image: {tag: v1}}}}");
    assert_eq!(status, Some(0), "{report}");
    assert!(report.contains("or accept that it has no effect"), "{report}");
}

#[test]
fn the_report_lists_flags_without_effect() {
    let backend = Backend::echo("shop");
    let folder = Folder::with(site("shop", "shop.example", &[&backend]));
    for output in ["text", "markdown", "html", "json"] {
        let (status, report) = check(&folder, &["--default-server-port=8181", "--logtostderr", "-o", output]);
        assert_eq!(status, Some(0), "{report}");
        for part in ["--default-server-port", "--logtostderr", "FlagWithoutEffect", "no internal server"] {
            assert!(report.contains(part), "{part}: {report}");
        }
    }
}

#[test]
fn the_remedy_of_an_unserved_protection_is_not_its_removal() {
    let backend = Backend::echo("shop");
    let ingress = Ingress::new("inside").path("a.example", "/", "shop");
    let ingress = ingress.annotation("modsecurity-snippet", "SecRuleEngine On");
    let (_, text) = check(&Folder::with(site("shop", "shop.example", &[&backend]) + &ingress.text()), &[]);
    let caution = "remove the snippet only when the routes may be served without it";
    assert!(text.contains(caution), "{text}");
}

#[test]
fn services_whose_app_protocol_ingress_nginx_ignores_are_named() {
    let service = |name: &str, protocol: &str| {
        format!(
            "---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}}}\nspec:\n  ports: [{{port: 80, appProtocol: \
             {protocol}}}]\n"
        )
    };
    let own = Ingress::new("own").path("shop.example", "/own", "own").annotation("backend-protocol", "HTTPS");
    let ingress =
        Ingress::new("shop").path("shop.example", "/", "secure").path("shop.example", "/plain", "plain");
    let services = [("secure", "https"), ("plain", "http"), ("own", "https"), ("unused", "https")];
    let services = services.map(|(name, protocol)| service(name, protocol)).concat();
    let folder = Folder::with(ingress.text() + &own.text() + &services);
    let (_, text) = check(&folder, &[]);
    assert!(text.contains("Service default/secure") && text.contains("AppProtocolDiffers"), "{text}");
    assert_eq!(text.matches("AppProtocolDiffers").count(), 1, "{text}");
}

#[test]
fn a_check_that_serves_nothing_says_so() {
    let folder = Folder::with("");
    let (status, text) = check(&folder, &["--strict"]);
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains("[NoIngressServed]") && text.contains("no Ingress is read"), "{text}");
    let backend = Backend::echo("shop");
    let folder = Folder::with(site("shop", "shop.example", &[&backend]));
    let (_, text) = check(&folder, &["--watch-namespace", "other"]);
    assert!(text.contains("not served: 1 Ingress of other namespaces\n"), "{text}");
    assert!(text.contains("none of the Ingresses is served"), "{text}");
    let flags = ["--ingress-class", "other", "--controller-class", "example.com/other"];
    let (_, text) = check(&folder, &flags);
    assert!(text.contains("not served: 1 Ingress of another class or none\n"), "{text}");
    let (_, text) = check(&folder, &[]);
    assert!(!text.contains("not served") && !text.contains("NoIngressServed"), "{text}");
    let (_, text) = check(&folder, &["-o", "json", "--watch-namespace", "other"]);
    let report: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(report["notServed"]["ingressesOfOtherNamespaces"], 1, "{text}");
}
