//! Values of annotations: the first byte selects the annotation. CONTRIBUTING.md describes how to
//! run it.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sluice_controller_fuzz::annotation(input));
