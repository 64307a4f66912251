//! `sluice webhook-cert`: executes one command and exits.

use anyhow::Result;
use sluice_controller::source::kube::ApiAccess;
use sluice_controller::webhook_certificate::{create, patch};

use crate::flags::{WebhookCert, WebhookCertAction};
use crate::logging;

/// Executes the command and returns a sentence that describes the result.
///
/// # Errors
/// The cluster is unreachable or rejects the request.
pub(crate) fn run(wanted: &WebhookCert) -> Result<String> {
    logging::start(0)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let access = ApiAccess::choose(wanted.kubeconfig.as_deref(), None, None)?;
        Ok(match &wanted.action {
            WebhookCertAction::Create(wanted) => create(&access, wanted).await?,
            WebhookCertAction::Patch(wanted) => patch(&access, wanted).await?,
        })
    })
}
