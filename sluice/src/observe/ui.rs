//! `sluice ui`: the address of the web page.

use std::process::ExitCode;

use anyhow::Result;
use serde_json::Value;

use super::Replica;
use crate::output::print;

/// Prints the address of the page of each replica.
///
/// # Errors
/// A replica is unreachable.
pub(super) fn run(replicas: &[Replica]) -> Result<ExitCode> {
    let mut text = String::new();
    for replica in replicas {
        // Whatever listens there is asked first.
        replica.document::<Value>("generation")?;
        let name = if replica.name.is_empty() { String::new() } else { format!(" ({})", replica.name) };
        text += &format!("http://{}/ui/{name}\n", replica.address);
    }
    Ok(print(&text))
}
