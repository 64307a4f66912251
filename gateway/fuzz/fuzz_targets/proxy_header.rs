//! Headers of the PROXY protocol, both versions. CONTRIBUTING.md says how to run it.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sluice_gateway::listen::try_proxy_header(input));
