//! Requests and responses of HTTP/1, heads and bodies: `cargo +nightly fuzz run messages seeds/messages`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sluice_gateway::direct::trial::message(input));
