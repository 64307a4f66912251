//! Sends the pipeline's own answers.

use http::Method;
use http::header::CONTENT_LENGTH;
use pingora_http::ResponseHeader;
use pingora_proxy::Session;

use super::context::Context;
use super::{Proxy, Result};
use crate::pipeline::Answer;

impl Proxy {
    /// Writes a whole response. Pingora adds `Date` and the connection's fields.
    pub(super) async fn answer(
        &self,
        session: &mut Session,
        ctx: &mut Context,
        answer: &Answer,
    ) -> Result<()> {
        if answer.close {
            session.set_keepalive(None);
        }
        self.settle_connection(session, ctx);
        let mut head = ResponseHeader::build(answer.status, Some(answer.fields.len() + 3))?;
        for (name, value) in &answer.fields {
            head.append_header(name, value)?;
        }
        if answer.has_length() {
            head.insert_header(CONTENT_LENGTH, answer.body.len())?;
        }
        let body = (session.req_header().method != Method::HEAD).then(|| answer.body.clone());
        session.write_response_header(Box::new(head), false).await?;
        session.write_response_body(body, true).await?;
        ctx.answered = true;
        Ok(())
    }
}
