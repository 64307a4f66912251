//! Sluice side by side with other proxies, so that its numbers are honest and can be had by anybody.
//!
//! One worker of one proxy at a time runs on one core; the load generator and the origin share another. A *scenario*
//! is one kind of traffic. In each round every scenario runs against every peer, one after the other and each with a
//! fresh process, in an order that moves on from round to round: whatever drifts on the machine hits all alike.
//! Proxies are compared by their ratio within a round; the median over the rounds is reported, with its spread.
//!
//! The figure that survives noisy machines is CPU time per request, user and system, of all of the proxy's
//! processes.

pub mod changes;
pub mod child;
pub mod document;
pub mod feature;
pub mod guard;
pub mod idle;
pub mod load;
pub mod losses;
pub mod machine;
pub mod origin;
pub mod peer;
pub mod picture;
pub mod quoted;
pub mod run;
pub mod sample;
pub mod scenario;
pub mod setup;
pub mod summary;
pub mod table;
pub mod tool;
pub mod usage;
