//! Checks the modules of this crate for cycles.

#[test]
fn modules_form_no_cycle() {
    sluice_testing::module_cycles::assert_no_module_cycle(env!("CARGO_MANIFEST_DIR"), &[]);
}
