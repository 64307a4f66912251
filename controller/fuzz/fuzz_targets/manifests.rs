//! Manifests in YAML. CONTRIBUTING.md describes how to run it.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sluice_controller_fuzz::manifests(input));
