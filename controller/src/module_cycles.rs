//! Checks the modules of this crate for cycles.

use sluice_testing::module_cycles::{assert_no_module_cycle, assert_no_module_cycle_in};

#[test]
fn modules_form_no_cycle() {
    assert_no_module_cycle(env!("CARGO_MANIFEST_DIR"));
}

/// `view` holds the values of all nodes, which all nodes read through it.
#[test]
fn modules_of_the_translation_form_no_cycle() {
    assert_no_module_cycle_in(env!("CARGO_MANIFEST_DIR"), "translate", &["view"]);
}

#[test]
fn modules_of_the_snippets_form_no_cycle() {
    assert_no_module_cycle_in(env!("CARGO_MANIFEST_DIR"), "translate::snippet", &[]);
}
