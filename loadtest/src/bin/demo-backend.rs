//! Backends of the quickstart: `demo-backend 9001=shop-1 9002=shop-2` responds on each port of
//! 127.0.0.1 with the name after it, until it is interrupted.

use std::net::{IpAddr, Ipv4Addr};
use std::process::ExitCode;

use anyhow::Context;
use sluice_loadtest::backend::Backend;

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.context("cannot start a runtime").and_then(|runtime| runtime.block_on(serve())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn serve() -> anyhow::Result<()> {
    let mut backends = Vec::new();
    for word in std::env::args().skip(1) {
        let (port, name) = word.split_once('=').context("write PORT=NAME, such as 9001=shop-1")?;
        let port = port.parse().with_context(|| format!("{port:?} is not a port"))?;
        backends.push(Backend::start(IpAddr::V4(Ipv4Addr::LOCALHOST), port, &format!("{name}\n")).await?);
    }
    anyhow::ensure!(!backends.is_empty(), "write PORT=NAME, such as 9001=shop-1");
    tokio::signal::ctrl_c().await.context("cannot wait for an interrupt")
}
