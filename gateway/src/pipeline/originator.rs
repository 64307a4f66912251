//! The interface between the direct engine and the origin of the request that it forwards.
//!
//! A request comes from a client ([`Exchange`](super::Exchange)) or from the gateway itself
//! ([`OwnCall`](super::OwnCall)). Both choose endpoints, retry and judge failures through a
//! [`Call`], so the engine is written once. They differ in what becomes of the response and of a
//! failure.

use std::time::Duration;

use http::StatusCode;
use sluice_config::{GlobalSettings, UpstreamProtocol};

use super::call::Call;
use super::outcome::{ExchangeOutcome, Next};
use crate::io::failure::Failure;
use crate::message::edit::{HeadMut, RequestMut, ResponseMut};
use crate::message::fastcgi::Params;
use crate::message::fields::Fields;
use crate::message::head::Head;
use crate::upstream::attempt::Upstream;

/// The origin of a request.
pub(crate) trait Originator {
    /// The result when no response is relayed: an answer for the client, or the failure of a call.
    type Answer;

    /// The conversation with the pool.
    fn call(&mut self) -> &mut Call;

    /// Global settings.
    fn settings(&self) -> &GlobalSettings;

    /// The protocol of the endpoints, once the request is to be forwarded.
    fn protocol(&self) -> Option<UpstreamProtocol>;

    /// Whether the endpoint gets HTTP/1.0 (`proxy-http-version`), which has neither chunks nor
    /// persistent connections. Valid once the target of the request is chosen.
    fn speaks_http_1_0(&self) -> bool;

    /// Whether the request may wait for a connection to be admitted.
    fn may_wait(&self) -> bool;

    /// Time limit between two reads of the request body; `None` is no limit.
    fn body_timeout(&self) -> Option<Duration>;

    /// The endpoint for the next attempt.
    ///
    /// # Errors
    /// There is none.
    fn pick(&mut self) -> Result<Upstream, Self::Answer>;

    /// Changes the request head for the endpoint. Every attempt starts from the head as it was
    /// received.
    fn upstream_request(&self, head: &mut impl RequestMut);

    /// The parameters of the request for a FastCGI endpoint, from a head that
    /// [`upstream_request`](Self::upstream_request) has prepared. The gateway's own calls go to
    /// HTTP endpoints only, so by default there are none.
    fn fastcgi_params(&self, _: &Head) -> Params {
        Params::default()
    }

    /// Changes an interim response head of the endpoint. Those of the gateway's own calls are
    /// dropped, so by default there is nothing to change.
    fn interim(&self, _: &mut impl HeadMut) {}

    /// The attempt failed.
    fn failed(&mut self, failure: Failure) -> Next<Self::Answer>;

    /// The endpoint sent a final response head. `None`: it is relayed. `replayable` as in
    /// [`Failure::replayable`].
    fn upstream_response(
        &mut self,
        status: StatusCode,
        fields: &impl Fields,
        replayable: bool,
    ) -> Option<Next<Self::Answer>>;

    /// Changes the head of a relayed response.
    fn response(&mut self, head: &mut impl ResponseMut);

    /// The request is dropped after the head of its response was relayed. The gateway's own calls
    /// end with the request that they are made for, so by default there is nothing to do.
    fn cut_off(&mut self, _: ExchangeOutcome) {}
}
