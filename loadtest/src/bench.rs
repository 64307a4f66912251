//! Side-by-side benchmark of Sluice and other proxies, whose results anyone can reproduce.
//!
//! One worker of one proxy at a time runs on one core; the load generator and the origin share
//! another. A *scenario* is one kind of traffic. In each round every scenario runs against every
//! peer in turn, each time with a new process, in an order that rotates from round to round, so
//! that drift of the machine affects all peers equally. Proxies are compared by their ratio within
//! a round; the report has the median over the rounds with its range.
//!
//! The measure least affected by noise is the CPU time per request, user and system, of all
//! processes of the proxy.

pub mod agent;
pub mod changes;
pub mod child;
pub mod columns;
pub mod document;
pub mod feature;
pub mod guard;
pub mod idle;
pub mod load;
pub mod losses;
pub mod machine;
pub mod nginx_module;
pub mod origin;
pub mod peer;
pub mod picture;
pub mod proof;
pub mod quoted;
pub mod run;
pub mod sample;
pub mod scenario;
pub mod setup;
pub mod summary;
pub mod table;
pub mod tool;
pub mod usage;
