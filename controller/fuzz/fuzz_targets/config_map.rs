//! Values of the program's ConfigMap, among them log formats and templates: the first byte selects
//! the key. CONTRIBUTING.md describes how to run it.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sluice_controller_fuzz::config_map(input));
