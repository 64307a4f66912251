//! Secrets: htpasswd, htdigest, certificates and keys in PEM. The first byte selects the kind.
//! CONTRIBUTING.md describes how to run it.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| sluice_controller_fuzz::secret(input));
