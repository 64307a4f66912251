//! Workers, connections and the proxy over loopback, with the real pipeline.

mod backend;
mod blocking;
mod bodies;
mod client;
mod direct;
mod end;
mod endpoints;
mod fastcgi;
mod floods;
mod frames;
mod gateway;
mod hidden_fields;
mod http2;
mod http2_endpoints;
mod limits;
mod malformed;
mod memory;
mod requests;
mod streams;
mod tls;
mod upgrades;
mod upstream;
mod websocket;
