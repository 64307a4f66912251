//! The process: its descriptors, tasks that must not end, counters that workers do not share, and
//! the channel for reports.

pub(crate) mod critical_task;
pub(crate) mod descriptors;
pub(crate) mod per_worker;
pub mod reporter;
