//! Stored responses of endpoints (`sluice.dev/cache`), on `pingora-cache`.
//!
//! Pingora's proxy runs the protocol of the cache (RFC 9111): lookup, revalidation, the lock that
//! lets one of several requests fetch a response, stale responses, conditions and ranges. This
//! module holds what it asks for:
//!
//! | file | content |
//! |---|---|
//! | `freshness` | which responses are stored, and how long they are fresh |
//! | `variance` | the fields of a request that `Vary` names |
//! | `key`, `keyed_hash` | what identifies a response, and the URL by which it is purged |
//! | `store`, `head` | responses, bounded in bytes, least recently used first |
//! | `files` | bodies that memory has no room for, with `--cache-path` |
//! | `storage`, `body_reader`, `body_writer` | the store as Pingora reads and writes it |
//! | `lookup`, `client_head` | responses that are sent without Pingora |
//! | `transfer`, `jobs` | bodies that are written to a file while they arrive; the blocking pool |
//! | `fetch_locks` | the locks that let one of several requests fetch a response |
//! | `response_cache` | the store of a data plane, with its locks |
//! | `status` | the outcome for a request, as in nginx |

mod body_reader;
mod body_writer;
mod client_head;
mod fetch_locks;
mod files;
mod freshness;
mod head;
mod jobs;
mod key;
mod keyed_hash;
mod lookup;
mod response_cache;
mod status;
mod storage;
mod store;
mod transfer;
mod variance;

pub(crate) use body_reader::is_readable;
pub(crate) use client_head::client_head;
pub(crate) use files::FolderFault;
pub use files::{FileErrors, FileUse};
pub(crate) use freshness::{TRANSIENT, storable};
pub(crate) use key::{CachedUrl, RequestKey};
pub(crate) use lookup::FreshResponse;
pub use response_cache::CacheUse;
pub(crate) use response_cache::{ResponseCache, ResponseStore};
pub use status::CacheStatus;
pub(crate) use store::{Purge, PurgedPath};
pub(crate) use variance::variance;
