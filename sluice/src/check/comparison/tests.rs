use http::HeaderMap;
use http::header::{CACHE_CONTROL, LOCATION};

use super::*;
use crate::check::rehearsal::Explanation;

fn effective(kind: ResponseKind, status: Option<u16>, backend: Option<&str>) -> EffectiveResponse {
    let backend = backend.map(str::to_owned);
    EffectiveResponse {
        kind,
        status,
        location: None,
        main_backend: backend.clone(),
        backend,
        explanation: Explanation {
            object: Some("Ingress shop/web".into()),
            path: "Prefix /".into(),
            ..Explanation::default()
        },
        error: None,
    }
}

fn recorded(status: u16, upstream: Option<&str>) -> RecordedResponse {
    let location = Some("shop-web-80".to_owned());
    let answerer = match upstream {
        Some(name) => LoggedAnswerer::Endpoint(Some(name.to_owned())),
        None => LoggedAnswerer::Controller,
    };
    RecordedResponse { status, answerer, location, credentials: false }
}

#[test]
fn a_log_that_does_not_say_who_answered_is_not_compared() {
    let web = effective(ResponseKind::Backend, None, Some("shop-web-80"));
    let none = effective(ResponseKind::NoRule, Some(404), None);
    let unknown = |status| RecordedResponse {
        status,
        answerer: LoggedAnswerer::Unknown,
        location: None,
        credentials: false,
    };
    let Verdict::NotCompared(reason) = with_record(&unknown(200), &web) else { panic!() };
    assert!(reason.contains("add $proxy_upstream_name and $upstream_addr"), "{reason}");
    assert!(matches!(with_record(&unknown(404), &none), Verdict::NotCompared(_)));
    assert!(matches!(with_record(&unknown(200), &none), Verdict::Different(_)), "a route is lost");
    let named = RecordedResponse { location: Some("shop-api-80".to_owned()), ..unknown(200) };
    assert!(matches!(with_record(&named, &web), Verdict::Different(_)), "the log names another Service");
    // Without the name, it is still known that an endpoint answered.
    let endpoint = RecordedResponse { answerer: LoggedAnswerer::Endpoint(None), ..unknown(200) };
    assert_eq!(with_record(&endpoint, &web), Verdict::Same);
    let Verdict::Different(differences) = with_record(&endpoint, &none) else { panic!() };
    assert_eq!((&*differences[0].old, &*differences[0].new), ("an endpoint (200)", "no rule 404"));
}

#[test]
fn a_log_line_is_compared_by_what_answered() {
    use ResponseKind::{Backend, Denied, NoRule, Redirect};
    let web = effective(Backend, None, Some("shop-web-80"));
    assert_eq!(
        with_record(&recorded(404, Some("shop-web-80")), &web),
        Verdict::Same,
        "the endpoint's own status"
    );
    assert_eq!(
        with_record(&recorded(200, Some("shop-next-80")), &web),
        Verdict::Same,
        "a canary of the same rule"
    );
    let api = effective(Backend, None, Some("shop-api-80"));
    assert!(matches!(with_record(&recorded(200, Some("shop-web-80")), &api), Verdict::Different(_)));
    let none = effective(NoRule, Some(404), None);
    let Verdict::Different(differences) = with_record(&recorded(200, Some("shop-web-80")), &none) else {
        panic!()
    };
    assert_eq!((&*differences[0].old, &*differences[0].new), ("backend shop-web-80 (200)", "no rule 404"));
    assert_eq!(with_record(&recorded(308, None), &effective(Redirect, Some(308), None)), Verdict::Same);
    assert!(matches!(
        with_record(&recorded(403, None), &effective(Denied, Some(401), None)),
        Verdict::Different(_)
    ));
    assert!(matches!(with_record(&recorded(403, None), &web), Verdict::Different(_)), "a protection is lost");
}

#[test]
fn what_the_log_cannot_show_is_not_compared() {
    let denied = effective(ResponseKind::Denied, Some(401), None);
    let with_password = RecordedResponse { credentials: true, ..recorded(200, Some("shop-web-80")) };
    assert!(matches!(with_record(&with_password, &denied), Verdict::NotCompared(_)));
    assert!(matches!(with_record(&recorded(200, Some("shop-web-80")), &denied), Verdict::Different(_)));
    let mut limited = effective(ResponseKind::Backend, None, Some("shop-web-80"));
    assert!(matches!(with_record(&recorded(503, None), &limited), Verdict::NotCompared(_)));
    limited.explanation.conditions.push("limits: 5 requests a second".into());
    assert!(matches!(with_record(&recorded(429, None), &limited), Verdict::NotCompared(_)));
}

fn head(status: u16, fields: &[(http::HeaderName, &str)]) -> Result<ResponseHead, NoResponse> {
    let fields: HeaderMap =
        fields.iter().map(|(name, value)| (name.clone(), value.parse().unwrap())).collect();
    Ok(ResponseHead { status, fields })
}

#[test]
fn chosen_fields_are_compared_besides_status_and_location() {
    let old = head(301, &[(LOCATION, "https://a.example/x"), (CACHE_CONTROL, "no-store")]);
    let new = head(308, &[(LOCATION, "https://b.example/x")]);
    let Verdict::Different(differences) = of_responses(&old, &new, &["cache-control".to_owned()]) else {
        panic!()
    };
    let titles: Vec<_> = differences.iter().map(title).collect();
    assert_eq!(titles, ["status 301 became 308", "Location differs in its host", "cache-control differs"]);
    assert_eq!(of_responses(&head(200, &[(CACHE_CONTROL, "a")]), &head(200, &[]), &[]), Verdict::Same);
    assert!(matches!(of_responses(&Err(NoResponse::Late), &head(200, &[]), &[]), Verdict::Different(_)));
}

#[test]
fn differences_with_one_cause_are_one_group() {
    let none = effective(ResponseKind::NoRule, Some(404), None);
    let request = |number: usize| CheckedRequest {
        method: http::Method::GET,
        https: true,
        authority: "shop.example".to_owned(),
        target: format!("/{number}"),
        client: [192, 0, 2, 1].into(),
        fields: Vec::new(),
        recorded: None,
    };
    let requests: Vec<_> = (0..8).map(request).collect();
    let differences = [Difference { what: "status".into(), old: "200".into(), new: "404".into() }];
    let groups = groups(requests.iter().map(|request| (request, 3, &none, &differences[..])));
    assert_eq!(groups.len(), 1);
    assert_eq!((groups[0].distinct, groups[0].requests, groups[0].examples.len()), (8, 24, EXAMPLES));
    assert_eq!(groups[0].title, "status 200 became 404");
}
