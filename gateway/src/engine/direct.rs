//! The direct engine: the gateway's own client for HTTP/1.1, HTTP/2 and FastCGI endpoints.
//!
//! It forwards requests of any origin ([`Originator`](crate::pipeline::Originator)) between a
//! client side ([`Downstream`](crate::body::downstream::Downstream)) and endpoints. Over HTTP/1.1
//! it writes the head from the text that was read, and bodies pass through one buffer of the
//! worker. Over HTTP/2 on both sides, bodies pass as pieces without a copy.
//!
//! | file | content |
//! |---|---|
//! | `attempts` | attempts at one endpoint after another |
//! | `forward_context` | steps that the attempts of all protocols share |
//! | `relay`, `attempt_io`, `download`, `replay`, `upload_timeouts` | parts shared by all protocols |
//! | `http1`, `http2`, `fastcgi` | one attempt, both directions; with an `upload` each |

mod attempt_io;
mod attempts;
mod download;
mod fastcgi;
mod forward_context;
mod http1;
mod http2;
mod relay;
mod replay;
mod upload_timeouts;

pub(super) use attempts::forward;
