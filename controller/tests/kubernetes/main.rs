//! A Kubernetes API as a source, from its outside: a fake API server on one side, what a data plane is told on the
//! other, and everything that can go wrong in between.

mod check;
mod fake;
mod lists;
mod objects;
mod plane;
mod references;
mod restore;
mod rights;
mod secrets;
