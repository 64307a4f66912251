//! Records, response heads and parameters of FastCGI. CONTRIBUTING.md describes how to run it.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sluice_gateway::message::try_fastcgi(input));
