//! The kinds of data that a collector receives, each with its service of OTLP.

mod attribute;
mod logs;
mod spans;

use prost::Message;

pub(crate) use logs::{LogRecords, LoggedLine};
pub(crate) use spans::Spans;

/// A kind of data.
pub(crate) trait Signal: Send + Sync + 'static {
    /// What a request leaves.
    type Item: Send;
    /// What OTLP makes of it.
    type Record: Send;
    /// The request that carries records.
    type Request: Message;
    /// The response to it.
    type Response: Message + Default;

    /// Name of the records in problems.
    const NAME: &'static str;
    /// The method of gRPC.
    const GRPC_PATH: &'static str;
    /// The path of HTTP.
    const HTTP_PATH: &'static str;

    /// Returns the number of records of an item.
    fn count(item: &Self::Item) -> usize;

    /// Appends the records of an item.
    fn push(records: &mut Vec<Self::Record>, item: &Self::Item);

    /// Returns the request that carries these records.
    fn request(service: &str, instance: &str, records: Vec<Self::Record>) -> Self::Request;

    /// Returns the number of records that the collector has rejected, and its message.
    fn rejected(response: Self::Response) -> (i64, String);
}
