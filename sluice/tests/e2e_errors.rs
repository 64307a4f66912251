//! Error pages of Sluice itself: the text of nginx without the program's name.

use crate::harness::client::Response;
use crate::harness::manifest::{service, service_with};
use crate::harness::wire::Side;
use crate::harness::{
    Backend, Connection, Folder, Gate, Gateway, Ingress, Reply, await_until, config_map, endpoints, get, site,
};

const HOST: &str = "errors.example";

#[track_caller]
fn is_page(response: &Response, status: u16, words: &str) {
    assert_eq!(response.status, status, "{response:?}");
    let text = response.text();
    assert!(text.contains(words) && text.contains("<html>"), "{text}");
    assert!(response.header("content-type").unwrap().starts_with("text/html"));
    for name in ["nginx", "sluice", "pingora"] {
        assert!(!text.to_lowercase().contains(name), "{text}");
    }
    assert_eq!(response.header("server"), Some("sluice"));
    assert!(response.header("date").is_some());
}

#[test]
fn no_route_is_404() {
    let gateway = Gateway::start(&Folder::with(""));
    is_page(&get(gateway.http, HOST, "/"), 404, "404 Not Found");
}

#[test]
fn no_endpoint_is_503_until_there_is_one() {
    let backend = Backend::echo("web");
    let folder = Folder::with(Ingress::new("web").path(HOST, "/", "web").text() + &service("web"));
    let gateway = Gateway::start(&folder);
    is_page(&get(gateway.http, HOST, "/"), 503, "503 Service Temporarily Unavailable");
    folder.write("endpoints.yaml", endpoints("web", &[&backend]));
    await_until("the endpoint", || get(gateway.http, HOST, "/").status == 200);
    folder.remove("endpoints.yaml");
    await_until("its end", || get(gateway.http, HOST, "/").status == 503);
}

#[test]
fn no_service_is_503_and_a_problem() {
    let gateway = Gateway::start(&Folder::with(Ingress::new("web").path(HOST, "/", "missing").text()));
    is_page(&get(gateway.http, HOST, "/"), 503, "503 Service Temporarily Unavailable");
    assert!(gateway.problems().contains("missing"), "{}", gateway.problems());
}

#[test]
fn a_dead_endpoint_is_502() {
    let mut backend = Backend::echo("web");
    backend.stop();
    let gateway = Gateway::start(&Folder::with(site("web", HOST, &[&backend])));
    is_page(&get(gateway.http, HOST, "/"), 502, "502 Bad Gateway");
}

#[test]
fn a_response_that_is_not_http_is_502() {
    for bytes in [
        "garbage\r\n\r\n",
        "HTTP/1.1 OK\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\nhello",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "<html>no head at all</html>",
    ] {
        let backend = Backend::with("bad", move |_| Reply::Raw(bytes.into()));
        let gateway = Gateway::start(&Folder::with(site("web", HOST, &[&backend])));
        is_page(&get(gateway.http, HOST, "/"), 502, "502 Bad Gateway");
    }
}

#[test]
fn a_slow_endpoint_is_504() {
    let gate = Gate::default();
    let backend = Backend::with("slow", {
        let gate = gate.clone();
        move |_| {
            gate.wait();
            Reply::Echo
        }
    });
    let ingress = Ingress::new("web")
        .path(HOST, "/", "web")
        .annotation("proxy-read-timeout", "1")
        .annotation("proxy-next-upstream-tries", "1");
    let gateway = Gateway::start(&Folder::with(ingress.text() + &service_with("web", &[&backend])));
    is_page(&get(gateway.http, HOST, "/"), 504, "504 Gateway Time-out");
    gate.open();
}

#[test]
fn a_response_that_breaks_off_ends_the_connection() {
    let head = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf";
    let backend = Backend::with("half", move |_| Reply::Raw(head.into()));
    let gateway = Gateway::start(&Folder::with(site("web", HOST, &[&backend])));
    let mut connection = Connection::plain(gateway.http);
    let outcome = connection.try_request("GET", HOST, "/", &[], "");
    assert!(outcome.is_err(), "a short body must not pass for a whole one: {outcome:?}");
}

#[test]
fn a_chunked_response_that_breaks_off_is_not_completed() {
    let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
    let backend = Backend::with("half", move |_| Reply::Raw(head.into()));
    let gateway = Gateway::start(&Folder::with(site("web", HOST, &[&backend])));
    let mut connection = Connection::plain(gateway.http);
    assert!(connection.try_request("GET", HOST, "/", &[], "").is_err());
}

#[test]
fn responses_of_every_framing_are_relayed_whole() {
    for (bytes, text) in [
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n6\r\n world\r\n0\r\n\r\n",
            "hello world",
        ),
        ("HTTP/1.1 200 OK\r\n\r\nuntil the end", "until the end"),
        ("HTTP/1.0 200 OK\r\n\r\nold", "old"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", ""),
        ("HTTP/1.1 204 No Content\r\n\r\n", ""),
        (
            "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
            "ok",
        ),
    ] {
        let backend = Backend::with("framed", move |_| Reply::Raw(bytes.into()));
        let gateway = Gateway::start(&Folder::with(site("web", HOST, &[&backend])));
        let mut connection = Connection::plain(gateway.http);
        let mut response = connection.get(HOST, "/");
        if response.status == 103 {
            response = connection.response();
        }
        assert_eq!(response.text(), text, "{bytes:?}");
    }
}

#[test]
fn an_answer_to_head_has_no_body() {
    let backend = Backend::echo("web");
    let gateway = Gateway::start(&Folder::with(site("web", HOST, &[&backend])));
    let mut connection = Connection::plain(gateway.http);
    for host in [HOST, "unknown.example"] {
        let response = connection.request("HEAD", host, "/", &[], "");
        assert!(response.header("content-length").is_some_and(|length| length != "0"), "{response:?}");
    }
    assert_eq!(connection.get(HOST, "/").backend(), "web", "the connection goes on");
}

#[test]
fn an_unimplemented_protecting_annotation_closes_its_ingress() {
    let backend = Backend::echo("web");
    let ingress =
        Ingress::new("web").path(HOST, "/", "web").annotation("modsecurity-snippet", "SecRuleEngine On");
    let gateway = Gateway::start(&Folder::with(ingress.text() + &service_with("web", &[&backend])));
    is_page(&get(gateway.http, HOST, "/"), 503, "503 Service Temporarily Unavailable");
    assert_eq!(backend.requests(), 0);
    assert!(gateway.problems().contains("modsecurity-snippet"), "{}", gateway.problems());
}

#[test]
fn a_request_body_that_breaks_off_never_looks_whole_to_the_backend() {
    let backend = Backend::echo("web");
    let folder = Folder::with(site("web", HOST, &[&backend]));
    folder.write("config.yaml", config_map("ingress-nginx/controller", &[]));
    let gateway = Gateway::start(&folder);
    let mut connection = Connection::plain(gateway.http);
    connection.send(format!("POST / HTTP/1.1\r\nHost: {HOST}\r\nContent-Length: 10\r\n\r\nhalf"));
    connection.finish_sending();
    let answer = connection.try_response(Side::Response);
    assert!(!matches!(&answer, Ok(Some(response)) if response.status == 200), "{answer:?}");
    assert_eq!(backend.requests(), 0, "the backend read a whole request");
}
