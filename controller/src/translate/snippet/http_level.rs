//! `http-snippet`: variables of `map` and `geo`, zones of limits, and `server` blocks with ports of
//! their own.

use std::sync::Arc;

use sluice_config::ComputedVariable;

use super::block::Block;
use super::computed::ComputedBuilder;
use super::fault::{Fault, Untranslated};
use super::grammar;
use super::{addresses, maps, servers};
use crate::translate::declarations::HttpDeclarations;
use crate::translate::value::{Type, Wrong};

/// The directives of `http-snippet`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct HttpSnippet {
    /// The variables of `map` and `geo`; each refers only to those before it.
    pub(crate) computed: Arc<[ComputedVariable]>,
    /// The names that it declares for other texts.
    pub(crate) declarations: HttpDeclarations,
    /// The `server` blocks, each with its port.
    pub(crate) servers: Vec<(u16, Block)>,
    /// The translation, one line per directive.
    pub(crate) lines: Vec<String>,
}

/// The typed directives of `http-snippet`.
pub(crate) fn http_snippet() -> Type<Arc<HttpSnippet>> {
    Type::new("directives of nginx", |text| match read(text) {
        Ok(snippet) => Ok(Arc::new(snippet)),
        Err(Untranslated { reason, remedy }) => Err(Wrong::Untranslated { reason, remedy }),
    })
}

/// # Errors
/// The first directive that nginx would refuse, or that Sluice does not support.
pub(super) fn read(text: &str) -> Result<HttpSnippet, Untranslated> {
    let directives = grammar::parse(text).map_err(Untranslated::from)?;
    let mut snippet = HttpSnippet::default();
    let mut computed = ComputedBuilder::default();
    // nginx reads a variable when it is used, so servers may stand before its directive.
    let (servers, others): (Vec<_>, Vec<_>) =
        directives.iter().partition(|directive| directive.name == "server");
    for directive in others {
        let line = match (&*directive.name, &directive.block) {
            ("map", Some(entries)) => maps::read(directive, entries, &mut computed)?,
            ("geo", Some(entries)) => addresses::read(directive, entries, &mut computed)?,
            (name @ ("limit_req_zone" | "limit_conn_zone"), None) => {
                computed.zone(name, &directive.arguments).map_err(|fault| directive.fault(fault))?
            }
            (name, _) => return Err(directive.fault(unsupported(name))),
        };
        snippet.lines.push(format!("line {}: {}: {line}", directive.line, directive.name));
    }
    (snippet.computed, snippet.declarations) = computed.finish();
    for directive in servers {
        let (ports, block) = servers::read(directive, &snippet.declarations)?;
        for port in ports {
            if snippet.servers.iter().any(|(known, _)| *known == port) {
                return Err(directive.fault(format!("port {port} has two servers").into()));
            }
            snippet.lines.push(format!("line {}: server: listens on port {port}", directive.line));
            snippet.servers.push((port, block.clone()));
        }
        snippet.lines.extend(block.lines().iter().cloned());
    }
    Ok(snippet)
}

/// The fault of a directive outside of the subset, with the setting that replaces it.
fn unsupported(name: &str) -> Fault {
    const REPLACEMENTS: &[(&str, &str)] = &[
        ("log_format", "the key log-format-upstream"),
        ("proxy_cache_path", "the annotations of Sluice for caching, or a cache in front of it"),
    ];
    Fault::replaced(
        "only map, geo, limit_req_zone, limit_conn_zone and server are translated",
        name,
        REPLACEMENTS,
    )
}
