//! Zone-aware routing: a Node and hints in a manifest folder.

use std::collections::BTreeSet;

use serde_json::json;

use crate::harness::client::Response;
use crate::harness::manifest::slice_of;
use crate::harness::{Backend, Connection, Folder, Gateway, Ingress, await_until, get, service};

const HOST: &str = "zones.example";
const FLAG: &str = "--enable-topology-aware-routing";

/// Returns the Node named by the gateway's environment variable `NODE_NAME`.
fn node(zone: &str) -> String {
    format!(
        "{{apiVersion: v1, kind: Node, metadata: {{name: node-1, labels: {{topology.kubernetes.io/zone: {zone}}}}}}}\n"
    )
}

/// Returns an EndpointSlice per backend, with a hint for its zone.
fn hinted(backends: &[(&Backend, &str)]) -> String {
    let one = |(number, (backend, zone)): (usize, &(&Backend, &str))| {
        let address = backend.address.ip().to_string();
        let endpoint = json!({"addresses": [address], "zone": zone, "hints": {"forZones": [{"name": zone}]}});
        slice_of(&format!("web-{number}"), "web", &[endpoint], backend.address.port())
    };
    backends.iter().enumerate().map(one).collect()
}

fn reached(gateway: &Gateway) -> BTreeSet<String> {
    (0..12).map(|_| get(gateway.http, HOST, "/").backend()).collect()
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn requests_go_to_the_endpoints_of_the_zone_and_to_all_where_it_has_none() {
    let [a, b, c] = ["a", "b", "c"].map(Backend::echo);
    let folder = Folder::with(Ingress::new("web").path(HOST, "/", "web").text() + &service("web"));
    folder.write("endpoints.yaml", hinted(&[(&a, "east"), (&b, "west"), (&c, "east")]));
    folder.write("node.yaml", node("east"));
    let gateway = Gateway::with(&folder, &[FLAG]);
    assert_eq!(reached(&gateway), names(&["a", "c"]));
    folder.write("node.yaml", node("west"));
    await_until("the other zone", || reached(&gateway) == names(&["b"]));
    folder.write("endpoints.yaml", hinted(&[(&a, "east"), (&c, "east")]));
    await_until("all of them", || reached(&gateway) == names(&["a", "c"]));
    // The same without the flag.
    folder.write("endpoints.yaml", hinted(&[(&a, "east"), (&b, "west"), (&c, "east")]));
    let gateway = Gateway::start(&folder);
    assert_eq!(reached(&gateway), names(&["a", "b", "c"]));
}

#[test]
fn sessions_and_hashes_lead_to_near_endpoints_and_stay_there() {
    let [a, b, c] = ["a", "b", "c"].map(Backend::echo);
    let sticky = Ingress::new("web").path(HOST, "/", "web").annotation("affinity", "cookie");
    let hashed = Ingress::new("hashed").path("hash.example", "/", "web");
    let hashed = hashed.annotation("upstream-hash-by", "$request_uri");
    let folder = Folder::with(sticky.text() + &hashed.text() + &service("web"));
    folder.write("endpoints.yaml", hinted(&[(&a, "east"), (&b, "west"), (&c, "east")]));
    folder.write("node.yaml", node("east"));
    let gateway = Gateway::with(&folder, &[FLAG]);
    let with_cookie = |cookie: &str| -> Response {
        Connection::plain(gateway.http).request("GET", HOST, "/", &[("Cookie", cookie)], "")
    };
    for number in 0..8 {
        let first = get(gateway.http, HOST, "/");
        assert_ne!(first.backend(), "b");
        assert_eq!(with_cookie(&first.cookie().unwrap()).backend(), first.backend());
        let path = format!("/{number}");
        let one = get(gateway.http, "hash.example", &path).backend();
        assert_ne!(one, "b");
        assert_eq!(get(gateway.http, "hash.example", &path).backend(), one);
    }
}
