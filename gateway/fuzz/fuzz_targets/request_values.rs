//! Cookies, credentials, parameters, forwarded fields, hosts and paths of requests. CONTRIBUTING.md
//! describes how to run it.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sluice_gateway::trial::request_values(input));
