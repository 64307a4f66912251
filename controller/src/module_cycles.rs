//! Checks the modules of this crate for cycles.

/// Modules whose imports do not count.
const EXEMPT: [&str; 2] = [
    // It holds the values of all nodes, which all nodes read through it.
    "translate::view",
    // It holds the settings of all families, whose types are in the files of the families.
    "translate::ingress::annotations::settings",
];

#[test]
fn modules_form_no_cycle() {
    sluice_testing::module_cycles::assert_no_module_cycle(env!("CARGO_MANIFEST_DIR"), &EXEMPT);
}
