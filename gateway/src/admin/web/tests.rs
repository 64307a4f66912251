//! The pages of a data plane in memory.

use std::sync::Arc;

use sluice_config::{Balance, Code, Deny, ObjectRef, Policies, Problem, Rule, Severity};

use super::*;
use crate::pipeline::tests::fixture::{Plane, Request, exact, forward, rule};
use crate::state::setting_values::{SettingOrigin, SettingValue};

fn page(plane: &Plane, name: &str, query: &str) -> String {
    let document = Web::default().make(&plane.state, &format!("{ROOT}{name}"), query);
    assert_eq!(document.status, StatusCode::OK);
    let text = String::from_utf8(document.body.to_vec()).unwrap();
    assert!(!text.contains("<script") && !text.contains("style="), "{text}");
    text
}

fn problem(object: &str, message: &str) -> Arc<Problem> {
    Arc::new(Problem {
        object: ObjectRef::new("Ingress", "shop", object),
        field: "spec.rules[0]".into(),
        uid: None,
        severity: Severity::Warning,
        code: Code::PathUnusual,
        message: message.into(),
        remedy: "correct it".into(),
    })
}

#[test]
fn every_page_is_found_and_names_itself_in_the_navigation() {
    let plane = Plane::simple(&[1, 2]);
    for (name, title) in PAGES {
        assert!(matches!(Web::find(&format!("{ROOT}{name}")), Some(Finding::Page)), "{name}");
        let text = page(&plane, name, "");
        let link = if name.is_empty() { "./" } else { name };
        assert!(text.contains(&format!("<a href=\"{link}\" aria-current=\"page\">{title}</a>")), "{text}");
        assert!(text.contains(&format!("<h1>{title}</h1>")), "{text}");
    }
    assert!(Web::find("/ui/other").is_none() && Web::find("/uix").is_none() && Web::find("/").is_none());
    let Some(Finding::Document(redirect)) = Web::find("/ui") else { panic!() };
    assert_eq!(redirect.status, StatusCode::PERMANENT_REDIRECT);
}

#[test]
fn text_of_objects_and_of_the_query_means_nothing_to_html() {
    let plane = Plane::simple(&[1]);
    let script = "\"><script>alert(1)</script>";
    plane.state.problems.change(&[problem("web", script)], &[]);
    let problems = page(&plane, "problems", "");
    assert!(problems.contains("&lt;script&gt;alert(1)"), "{problems}");
    let query =
        "q=%22%3E%3Cscript%3E&url=%22%3E%3Cscript%3E&headers=%3C/textarea%3E%3Cscript%3E&method=%3Cscript";
    for (name, _) in PAGES {
        let text = page(&plane, name, query);
        assert!(!text.contains("<script") && !text.contains("</textarea><script"), "{name}: {text}");
    }
}

#[test]
fn a_long_list_is_divided_into_pages() {
    let plane = Plane::simple(&[1]);
    let problems: Vec<_> = (0..1000).map(|number| problem(&format!("web-{number:04}"), "odd")).collect();
    plane.state.problems.change(&problems, &[]);
    let rows = |text: &str| text.matches("<th scope=\"row\">Ingress shop/web-").count();
    let first = page(&plane, "problems", "");
    assert_eq!(rows(&first), listing::ROWS);
    assert!(first.contains("1 to 200 of 1000.") && first.contains("href=\"?page=2\""), "{first}");
    assert!(first.contains("web-0000") && !first.contains("web-0200"));
    let last = page(&plane, "problems", "page=5");
    assert!(last.contains("web-0999") && last.contains("801 to 1000 of 1000."));
    let filtered = page(&plane, "problems", "q=WEB-0042");
    assert_eq!(rows(&filtered), 1);
}

#[test]
fn rules_have_figures_and_closed_ones_their_reason() {
    let mut plane = Plane::simple(&[1]);
    let deny = Some(Deny { status: 503, reason: "Secret shop/users does not exist".into() });
    let closed = Rule {
        policies: Arc::new(Policies { deny, ..Policies::default() }),
        ..rule("/closed", forward("web"))
    };
    plane.host(exact("b.example"), true, vec![closed, rule("/", forward("web"))]);
    let mut exchange = plane.forward(&Request::get("b.example", "/").https());
    exchange.end(crate::pipeline::ExchangeOutcome {
        status: Some(StatusCode::BAD_GATEWAY),
        ..Default::default()
    });
    drop(exchange);
    let hosts = page(&plane, "hosts", "");
    assert!(hosts.contains("closed with 503: Secret shop/users does not exist"), "{hosts}");
    assert!(hosts.contains("explain?url=https%3A//b.example/closed"), "{hosts}");
    let only_closed = page(&plane, "hosts", "closed=1");
    assert!(only_closed.contains("b.example") && !only_closed.contains("a.example"), "{only_closed}");
    let by_errors = page(&plane, "hosts", "sort=errors");
    let row = by_errors.split("<th scope=\"row\">").nth(1).unwrap();
    assert!(row.starts_with("b.example") && row.contains("100.00 %"), "{row}");
    let overview = page(&plane, "", "");
    assert!(overview.contains("100.00 %") && overview.contains("1 since the start"), "{overview}");
}

#[test]
fn an_explained_request_shows_its_checks_and_hides_credentials() {
    let plane = Plane::with_policies(Balance::RoundRobin, &[1], Policies::default());
    let query = "url=http%3A%2F%2Fa.example%2Fcart%3Fx%3D1&method=GET&client=192.0.2.9\
                 &headers=Authorization%3A+Basic+c2VjcmV0%0D%0AX-Beta%3A+yes";
    let text = page(&plane, "explain", query);
    for part in ["GET http://a.example/cart", "Goes to shop-web-80", "10.0.0.1:8080", "(hidden)", "192.0.2.9"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    // The form keeps what was entered.
    let (form, result) = text.split_once("</form>").unwrap();
    assert!(form.contains("X-Beta: yes") && !result.contains("c2VjcmV0"), "{result}");
    for (query, said) in [
        ("url=ftp%3A%2F%2Fa", "is not a URL"),
        ("url=a.example&headers=x", "is not a header"),
        ("url=a.example&client=x", "is not the address"),
        ("url=a.example&method=%C3%BC", "is not a method"),
        ("url=a.example%2F%25zz", "400"),
    ] {
        let text = page(&plane, "explain", query);
        assert!(text.contains("role=\"alert\"") && text.contains(said), "{query}: {text}");
    }
    assert!(page(&plane, "explain", "url=other.example").contains("No rule has this host"));
}

#[test]
fn settings_that_are_set_come_first_with_their_origin() {
    let plane = Plane::simple(&[]);
    let value =
        |name: &str, value: &str, origin| SettingValue { name: name.into(), value: value.into(), origin };
    let keys = vec![
        value("gzip-level", "1", SettingOrigin::Default),
        value("use-gzip", "true", SettingOrigin::ConfigMap),
    ];
    plane.state.setting_values.set_keys(keys);
    plane.state.setting_values.set_flags(vec![value("--enable-metrics", "true", SettingOrigin::Flag)]);
    let text = page(&plane, "settings", "");
    let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
    assert!(place("use-gzip") < place("--enable-metrics") && place("--enable-metrics") < place("gzip-level"));
    assert!(!page(&plane, "settings", "set=1").contains("gzip-level"));
}

#[test]
fn a_page_may_reload_itself_within_limits() {
    let plane = Plane::simple(&[]);
    assert!(page(&plane, "", "refresh=5").contains("<meta http-equiv=\"refresh\" content=\"5\">"));
    for query in ["", "refresh=0", "refresh=99999", "refresh=x"] {
        assert!(!page(&plane, "", query).contains("http-equiv=\"refresh\""), "{query}");
    }
}

#[test]
fn figures_cover_the_time_between_two_looks() {
    let plane = Plane::simple(&[1]);
    let recent = RecentFigures::default();
    let uptime = Duration::from_secs(100);
    assert!(recent.read(&plane.state, uptime).is_since_start());
    // An earlier look within the shortest interval is not compared with.
    let second = recent.read(&plane.state, uptime);
    assert!(second.is_since_start() && second.covers() == uptime);
}
