//! `sluice routes`, `backends`, `certs` and `problems`: prints the state of the running gateway,
//! queried from its admin listener.
//!
//! JSON is printed unchanged; tables are formatted per view by [`layout`].

pub(crate) mod explanation;
pub(crate) mod layout;
pub(crate) mod table;

use crate::admin_client::{QueryError, query};
use crate::flags::{Output, Show};

/// Returns the text to print.
///
/// # Errors
/// The gateway is unreachable, or its response is invalid.
pub(crate) fn show(show: Show) -> Result<String, QueryError> {
    let address = show.admin_address;
    let page = match &show.request {
        Some(request) => explanation::page(request),
        None => show.view.name().to_owned(),
    };
    let body = query(address, &page)?;
    match show.output {
        Output::Json => Ok(body),
        Output::Table => {
            let value = serde_json::from_str(&body)
                .map_err(|error| QueryError::NotSluice { address, reason: error.to_string() })?;
            Ok(match &show.request {
                Some(_) => explanation::render(&value),
                None => table::render(&layout::lines(show.view, &value)),
            })
        }
    }
}
