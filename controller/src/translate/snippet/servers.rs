//! `server` blocks of `http-snippet` with ports of their own, such as the one of ingress-nginx's
//! manifest for AWS that redirects to https (`server { listen 2443; return 308 ...; }`).

use sluice_config::directives::LocationMatch;

use super::block::Block;
use super::context::{DirectiveContext, SnippetContext};
use super::fault::Untranslated;
use super::grammar::Directive;
use super::program;
use super::reader::Reader;
use crate::translate::declarations::HttpDeclarations;

/// Reads a `server` block. Returns its ports and its directives.
///
/// # Errors
/// The first directive that nginx would refuse, or that Sluice does not support.
pub(super) fn read(
    directive: &Directive,
    declarations: &HttpDeclarations,
) -> Result<(Vec<u16>, Block), Untranslated> {
    let inner = match &directive.block {
        Some(inner) if directive.arguments.is_empty() => inner,
        _ => return Err(directive.fault("takes a block only".into())),
    };
    let mut reader = Reader { declared: program::declared(inner, declarations) };
    let (own, others): (Vec<_>, Vec<_>) =
        inner.iter().cloned().partition(|inner| ["listen", "server_name"].contains(&&*inner.name));
    let ports = ports(&own)?;
    if ports.is_empty() {
        return Err(directive.fault("it has no listen".into()));
    }
    let block = reader.block(&others, DirectiveContext { place: SnippetContext::Server, in_if: false })?;
    if block.locations.iter().any(|(matches, _)| is_root(matches)) {
        return Err(directive.fault("location / is the server itself here; put its directives there".into()));
    }
    Ok((ports, block))
}

/// Reads `listen` and `server_name`. Returns the ports.
fn ports(directives: &[Directive]) -> Result<Vec<u16>, Untranslated> {
    let mut ports = Vec::new();
    for directive in directives {
        match (&*directive.name, &directive.arguments[..]) {
            ("server_name", [name]) if name == "_" || name.is_empty() => {}
            ("server_name", _) => {
                return Err(directive.fault("a server takes all names of its port; use _".into()));
            }
            ("listen", [address, options @ ..]) => {
                if let Some(option) = options.iter().find(|option| !is_idle(option)) {
                    return Err(directive.fault(format!("the option {option} is not translated").into()));
                }
                let port = address.strip_prefix("[::]:").unwrap_or(address);
                match port.parse() {
                    Ok(port @ 1..) if !ports.contains(&port) => ports.push(port),
                    Ok(1..) => {}
                    _ => return Err(directive.fault("takes a port, or [::]:PORT".into())),
                }
            }
            _ => return Err(directive.fault("takes a port".into())),
        }
    }
    Ok(ports)
}

/// Whether a location takes all paths that no other one takes.
fn is_root(matches: &LocationMatch) -> bool {
    matches!(matches, LocationMatch::Prefix(path) | LocationMatch::FinalPrefix(path) if **path == *"/")
}

/// Whether an option of `listen` changes nothing here: sockets are on all addresses that the
/// gateway listens on.
fn is_idle(option: &str) -> bool {
    ["default_server", "reuseport", "deferred", "ipv6only=on", "ipv6only=off"].contains(&option)
        || option.starts_with("backlog=")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::translate::snippet::http_level::{HttpSnippet, read};

    #[test]
    fn a_server_has_ports_and_the_directives_of_a_server() {
        let text = "# NLB\nserver {\n  listen 2443; listen [::]:2443 default_server; listen 8081 reuseport;\n  \
                    server_name _;\n  add_header X-A 1;\n  return 308 https://$host$request_uri;\n}";
        let servers = read(text).unwrap();
        let ports: Vec<_> = servers.servers.iter().map(|(port, _)| *port).collect();
        assert_eq!(ports, [2443, 8081]);
        assert_eq!(servers.servers[0].1, servers.servers[1].1);
        assert_eq!(servers.servers[0].1.program.len(), 1);
        assert!(servers.lines[0].contains("port 2443") && servers.lines.len() == 4, "{:?}", servers.lines);
        assert_eq!(read("").unwrap(), HttpSnippet::default());
    }

    #[test]
    fn other_directives_are_refused_by_line_and_name() {
        for (text, part) in [
            ("\nupstream x { }", "line 2: upstream"),
            ("server { return 308 /; }", "no listen"),
            ("server { listen 80 ssl; }", "option ssl"),
            ("server { listen 80 proxy_protocol; }", "proxy_protocol"),
            ("server { listen unix:/x; }", "takes a port"),
            ("server { listen 0; }", "takes a port"),
            ("server { listen 80; server_name a.example; }", "server_name"),
            ("server { listen 80; root /x; }", "root"),
            ("server { listen 80; location / { deny all; } }", "location /"),
            ("server { listen 80; } server { listen 80; }", "two servers"),
            ("server { listen 80;", "}"),
        ] {
            let Untranslated { reason, remedy } = read(text).unwrap_err();
            assert!(format!("{reason}; {remedy}").contains(part), "{text}: {reason}; {remedy}");
        }
    }
}
