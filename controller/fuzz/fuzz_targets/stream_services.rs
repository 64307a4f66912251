//! Entries of the ConfigMaps of TCP and UDP services. CONTRIBUTING.md describes how to run it.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sluice_controller_fuzz::stream_services(input));
