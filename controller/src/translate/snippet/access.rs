//! `allow` and `deny`.

use sluice_config::directives::AccessRule;

use super::addresses::network;
use super::block::Block;
use super::context::DirectiveContext;
use super::fault::Fault;

/// Reads one of these directives. Returns the translation in words.
pub(super) fn read(
    name: &str,
    arguments: &[String],
    context: DirectiveContext,
    block: &mut Block,
) -> Result<String, Fault> {
    let [text] = arguments else { return Err("takes a network, an address or all".into()) };
    if context.in_if {
        return Err(context.not_permitted());
    }
    let network = match &**text {
        "all" => None,
        "unix:" => return Err("no client of the gateway has a Unix socket".into()),
        text => Some(network(text)?),
    };
    let allows = name == "allow";
    block.access.push(AccessRule { network, allows });
    let clients = if network.is_none() { "all clients" } else { text };
    Ok(format!("{} {clients}", if allows { "admits" } else { "refuses" }))
}
