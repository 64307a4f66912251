//! The origin of all proxies in the benchmark: `bench-origin ADDRESS`.

use std::net::SocketAddr;
use std::process::ExitCode;

use anyhow::Context;
use sluice_loadtest::bench::origin::{server, streams};

fn main() -> ExitCode {
    let served =
        std::env::args().nth(1).context("write an address, such as 127.0.0.1:9000").and_then(|word| {
            let address: SocketAddr = word.parse().with_context(|| format!("{word:?} is not an address"))?;
            // In a thread of its own, without the cost of an event loop.
            std::thread::spawn(move || streams::echo_datagrams(address));
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(server::serve(address))
        });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}
