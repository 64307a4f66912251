//! Our own answers on Pingora's session.

use http::Method;
use http::header::CONTENT_LENGTH;
use pingora_core::Result;
use pingora_http::ResponseHeader;
use pingora_proxy::Session;

use crate::pipeline::Answer;

/// Sends `answer` whole.
pub(super) async fn write(session: &mut Session, answer: &Answer) -> Result<()> {
    let mut head = ResponseHeader::build(answer.status, Some(answer.fields.len() + 3))?;
    for (name, value) in &answer.fields {
        head.append_header(name.clone(), value.clone())?;
    }
    head.insert_header(CONTENT_LENGTH, answer.body.len())?;
    if answer.close {
        session.set_keepalive(None);
    }
    let without_body = answer.body.is_empty() || session.req_header().method == Method::HEAD;
    session.write_response_header(Box::new(head), without_body).await?;
    if !without_body {
        session.write_response_body(Some(answer.body.clone()), true).await?;
    }
    Ok(())
}
