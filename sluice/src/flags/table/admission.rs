//! The admission webhook, and checks of what objects say.

use super::super::value::Place::{Nowhere, To};
use super::super::value::Value::{Bool, File, Text};
use super::{Flag, flag};

/// Why flags about the webhook do nothing.
const NO_WEBHOOK: &str =
    "there is no admission webhook; run `sluice check` before applying, and remove this flag";

pub(super) const FLAGS: &[Flag] = &[
    flag("validating-webhook", Text(Nowhere(NO_WEBHOOK)), "", "Address of the admission webhook"),
    flag("validating-webhook-certificate", File(Nowhere(NO_WEBHOOK)), "", "Its certificate, a PEM file"),
    flag("validating-webhook-key", File(Nowhere(NO_WEBHOOK)), "", "Its key, a PEM file"),
    flag("disable-full-test", Bool(Nowhere(NO_WEBHOOK)), "false", "Check the submitted Ingress alone"),
    flag(
        "enable-annotation-validation",
        Bool(To(|f| &mut f.controller.enable_annotation_validation)),
        "true",
        "Refuse Ingresses with invalid annotation values",
    ),
    flag(
        "deep-inspect",
        Bool(Nowhere(
            "no configuration text is made from objects, so there is nothing to inspect; remove this flag",
        )),
        "true",
        "Look for injected configuration",
    ),
];
