//! The Kubernetes source from outside: a fake API server, the deltas that a data plane gets, and
//! the failures in between.

mod check;
mod fake;
mod lists;
mod objects;
mod plane;
mod references;
mod restore;
mod rights;
mod secrets;
mod watches;
