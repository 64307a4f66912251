//! Field blocks of HTTP/2 (HPACK). CONTRIBUTING.md describes how to run it.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sluice_gateway::trial::field_block(input));
