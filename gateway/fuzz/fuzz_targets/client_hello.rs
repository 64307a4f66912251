//! The TLS ClientHello that chooses between termination and passthrough. CONTRIBUTING.md says how
//! to run it.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sluice_gateway::listen::try_client_hello(input));
