//! Limits that apply to all replicas of the gateway together (`limit-across-replicas`,
//! `docs/limits.md`).
//!
//! Every replica publishes how much of its limits clients have used, and subscribes to that of
//! every other replica, over mutual TLS. What it hears counts like its own requests. Requests wait
//! for nothing: the use of the last tenth of a second is sent by a task of its own, and a replica
//! that is not heard reduces the [share](crate::policy::limits::LimitShare) of every limit that
//! this one grants.
//!
//! | file | content |
//! |---|---|
//! | `identity` | TLS between replicas, and the key of the hashes of clients |
//! | `limit_sync` | the task that follows the configuration and starts the others |
//! | `message` | what replicas send each other |
//! | `own_replica` | this replica, as the tasks see it |
//! | `publisher` | sends the use of this replica |
//! | `subscriber` | receives the use of another replica |

mod identity;
mod limit_sync;
mod message;
mod own_replica;
mod publisher;
mod subscriber;

pub(crate) use limit_sync::{LimitSync, ReplicaReport, WantedReplicas};
