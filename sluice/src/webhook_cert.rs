//! `sluice webhook-cert`: a program that does one thing and ends.

use anyhow::Result;
use sluice_controller::source::kube::Access;
use sluice_controller::webhook_certificate::{create, patch};

use crate::flags::{WebhookCert, WebhookCertAction};
use crate::logging;

/// Does it, and gives a sentence that says what was done.
///
/// # Errors
/// The cluster cannot be asked, or refuses.
pub(crate) fn run(wanted: &WebhookCert) -> Result<String> {
    logging::start(0)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let access = Access::choose(wanted.kubeconfig.as_deref(), None, None)?;
        Ok(match &wanted.action {
            WebhookCertAction::Create(wanted) => create(&access, wanted).await?,
            WebhookCertAction::Patch(wanted) => patch(&access, wanted).await?,
        })
    })
}
