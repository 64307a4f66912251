//! The admission webhook, and the validation of objects.

use super::super::value::Destination::{Nowhere, To};
use super::super::value::Value::{Bool, File, Listen};
use super::{Flag, flag};

/// Reason why the flags about the scope of a review have no effect.
const WHOLE: &str = "the cost of a review does not depend on the number of Ingresses; remove this flag";

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
        "Certificate of the webhook, a PEM file that is reloaded when it changes",
    ),
    flag(
        "validating-webhook-key",
        File(To(|f| &mut f.webhook.key)),
        "",
        "Key of the webhook, a PEM file that is reloaded too",
    ),
    flag("disable-full-test", Bool(Nowhere(WHOLE)), "false", "Check the submitted Ingress alone"),
    flag(
        "enable-annotation-validation",
        Bool(To(|f| &mut f.controller.enable_annotation_validation)),
        "true",
        "Reject Ingresses with invalid annotation values",
    ),
    flag(
        "deep-inspect",
        Bool(Nowhere(
            "no configuration text is generated from objects, so there is nothing to inspect; remove this \
             flag",
        )),
        "true",
        "Look for injected configuration",
    ),
];
