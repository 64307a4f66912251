//! Requests and responses of HTTP/1, heads and bodies. CONTRIBUTING.md says how to run it.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sluice_gateway::message::trial::message(input));
