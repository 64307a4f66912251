//! Workers, connections and the proxy over loopback, in front of the real pipeline.

mod backend;
mod bodies;
mod client;
mod direct;
mod end;
mod gateway;
mod http2;
mod limits;
mod malformed;
mod requests;
mod tls;
mod upgrades;
mod upstream;
