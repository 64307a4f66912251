//! The output format of a query: `-o`.

use clap::{Arg, ArgMatches};

use super::error::FlagError;

const OUTPUT: &str = "output";

/// Output format of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// A table.
    Table,
    /// The JSON of the admin listener, unchanged.
    Json,
}

/// Returns the format.
pub(super) fn output(matches: &ArgMatches) -> Result<Output, FlagError> {
    match matches.get_one::<String>(OUTPUT).map_or("", String::as_str) {
        "json" => Ok(Output::Json),
        "table" => Ok(Output::Table),
        other => Err(FlagError::Value { flag: OUTPUT, value: other.to_owned(), expected: "json or table" }),
    }
}

/// Returns the argument.
pub(super) fn output_argument() -> Arg {
    Arg::new(OUTPUT).short('o').long(OUTPUT).value_name("FORMAT").default_value("table").help("json or table")
}
