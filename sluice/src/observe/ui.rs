//! `sluice ui`: the address of the web page.

use std::process::ExitCode;

use anyhow::{Result, anyhow};
use serde_json::Value;

use super::Replica;
use super::replica::prefix;
use crate::output::print;

/// Prints the address of the page of each replica.
///
/// # Errors
/// A replica is unreachable.
pub(super) fn run(replicas: &[Replica]) -> Result<ExitCode> {
    let mut text = String::new();
    for replica in replicas {
        // Whatever listens there is asked first.
        let answer = replica.document::<Value>("generation").and_then(|_| replica.reach());
        let address = answer.map_err(|error| anyhow!("{}{error}", prefix(&replica.name)))?;
        let name = if replica.name.is_empty() { String::new() } else { format!(" ({})", replica.name) };
        text += &format!("http://{address}/ui/{name}\n");
    }
    Ok(print(&text))
}
