//! Snippets of nginx directives: the first byte selects where they stand. CONTRIBUTING.md describes
//! how to run it.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sluice_controller_fuzz::snippet(input));
