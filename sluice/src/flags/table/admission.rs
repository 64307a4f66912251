//! The admission webhook, and checks of what objects say.

use super::super::value::Place::{Nowhere, To};
use super::super::value::Value::{Bool, File, Listen};
use super::{Flag, flag};

/// Why a flag about what the webhook looks at does nothing.
const WHOLE: &str = "a review costs what its Ingress costs, however many others there are; remove this flag";

pub(super) const FLAGS: &[Flag] = &[
    flag(
        "validating-webhook",
        Listen(To(|f| &mut f.webhook.address)),
        "",
        "Address of the validating webhook, with TLS, at the path /networking/v1/ingresses; :8443 is a port on all addresses",
    ),
    flag(
        "validating-webhook-certificate",
        File(To(|f| &mut f.webhook.certificate)),
        "",
        "Its certificate, a PEM file that is read again when it changes",
    ),
    flag(
        "validating-webhook-key",
        File(To(|f| &mut f.webhook.key)),
        "",
        "Its key, a PEM file that is read again too",
    ),
    flag("disable-full-test", Bool(Nowhere(WHOLE)), "false", "Check the submitted Ingress alone"),
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
