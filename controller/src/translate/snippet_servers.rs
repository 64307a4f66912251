//! Listeners and hosts of the `server` blocks of `http-snippet`.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluice_config::{
    Action, Bind, BindProtocol, Code, GroupId, Host, HostKey, HostPattern, Listener, ListenerGroup,
    ListenerId, Match, NamespacedName, ObjectRef, Origin, PathMatch, Policies, Problem, Rule,
};

use super::snippet::{self, Block, TemplateDirectives};
use super::view::View;
use crate::problem::error;

/// The key of the ConfigMap.
pub(crate) const KEY: &str = "http-snippet";

/// One server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SnippetServer {
    /// Its socket.
    pub(crate) group: Arc<ListenerGroup>,
    /// Its only host, which takes all names.
    pub(crate) host: Arc<Host>,
}

/// Computes the servers. One on a port of the gateway is left out, with a problem.
pub(crate) fn compute(view: &View<'_>, problems: &mut Vec<Problem>) -> BTreeMap<GroupId, SnippetServer> {
    let config_map = view.config_map_settings();
    let name = view.options.configmap.clone().unwrap_or_else(|| NamespacedName::new("", ""));
    let object = ObjectRef { kind: "ConfigMap".into(), name };
    let own = [("--http-port", view.options.http_port), ("--https-port", view.options.https_port)];
    let mut servers = BTreeMap::new();
    for (port, block) in config_map.snippets.http.iter().flat_map(|http| &http.servers) {
        if let Some((flag, _)) = own.iter().find(|(_, own)| own == port) {
            problems.push(error(
                Code::KeyInvalid,
                &object,
                format!("data[{KEY}]"),
                format!("has a server on port {port}, which is that of {flag}; the server is left out"),
                "give the server another port",
            ));
            continue;
        }
        let id = GroupId(format!("{KEY}/{port}").into());
        let group = ListenerGroup {
            id: id.clone(),
            binds: vec![Bind {
                addresses: view.bind_addresses().to_vec(),
                port: *port,
                declared_port: *port,
                protocol: BindProtocol::Http,
                source: format!("data[{KEY}] of {object}").into(),
            }],
            listeners: vec![Listener { id: ListenerId::any(), host: HostPattern::Any }],
            required: false,
            stream: None,
        };
        let host = host(&id, &object, block, config_map.closed.as_ref());
        servers.insert(id, SnippetServer { group: Arc::new(group), host: Arc::new(host) });
    }
    servers
}

/// A host whose answers are those of the block; nginx has no file to serve.
fn host(group: &GroupId, object: &ObjectRef, block: &Block, closed: Option<&Arc<str>>) -> Host {
    let directives = snippet::resolve(block, &Block::default(), TemplateDirectives::default());
    let deny = closed.map(|reason| sluice_config::Deny { status: 503, reason: reason.clone() });
    let policies = Policies { directives: Some(Arc::new(directives)), deny, ..Policies::default() };
    let rule = Rule {
        matches: Match::path(PathMatch::Prefix("/".into())),
        action: Action::Answer(404),
        policies: Arc::new(policies),
        origin: Arc::new(Origin {
            object: object.clone(),
            rule: 0,
            match_index: 0,
            rule_name: None,
            // The gateway's own paths are none on this port.
            path: "/healthz /nginx_status".into(),
        }),
    };
    Host {
        key: HostKey { group: group.clone(), listener: ListenerId::any(), pattern: HostPattern::Any },
        alias_of: None,
        tls: None,
        has_https: false,
        passthrough: None,
        client_certificates: None,
        cipher_suites: None,
        rules: vec![rule],
        fall_through: false,
    }
}
