//! `sluice top`, `tap`, `trace-next`, `bundle` and `ui`: commands that observe running replicas.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches};

use super::arguments::{admin_address, admin_arguments, is_on, switch};
use super::error::FlagError;
use super::output::{Output, output, output_argument};
use super::value;

const TOP: &str = "top";
const SORT: &str = "sort";
const INTERVAL: &str = "interval";
const ONCE: &str = "once";
const ALL: &str = "all";

const TAP: &str = "tap";
const TRACE_NEXT: &str = "trace-next";
const HOST: &str = "host";
const PATH: &str = "path";
const METHOD: &str = "method";
const STATUS: &str = "status";
const CLIENT: &str = "client";
const MIN_DURATION: &str = "min-duration";
const SAMPLE: &str = "sample";
const FOR: &str = "for";
const COUNT: &str = "count";

const BUNDLE: &str = "bundle";
const FILE: &str = "output";

const UI: &str = "ui";
const PORT: &str = "port";

/// The subcommands in the order of `--help`.
pub(super) const NAMES: [&str; 5] = [TOP, TAP, TRACE_NEXT, BUNDLE, UI];

/// A command that observes running replicas.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ObserveArguments {
    /// The admin listener of the replica on this machine.
    pub(crate) admin_address: SocketAddr,
    /// What to observe.
    pub(crate) action: Observation,
}

/// One of the commands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Observation {
    /// Prints rules by their traffic.
    Top(Top),
    /// Prints requests as they end.
    Tap(TapArguments),
    /// Prints the steps of the next request.
    TraceNext(TraceNext),
    /// Writes an archive for a bug report.
    Bundle(Bundle),
    /// Prints the address of the web page.
    Ui(Ui),
}

/// Arguments of `tap`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TapArguments {
    /// Which requests to print.
    pub(crate) requests: LiveRequests,
    /// Number of requests after which it ends.
    pub(crate) count: Option<NonZeroU64>,
    /// A line of text, or of JSON, per request.
    pub(crate) output: Output,
}

/// Arguments of `trace-next`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TraceNext {
    /// Which request to print.
    pub(crate) requests: LiveRequests,
    /// The output format.
    pub(crate) output: Output,
}

/// Which live requests to read, and for how long. The gateway checks the values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LiveRequests {
    /// Parameters of the query, by name.
    pub(crate) parameters: Vec<(&'static str, String)>,
    /// How long to read.
    pub(crate) time: Duration,
}

/// Arguments of `bundle`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bundle {
    /// Where to write it.
    pub(crate) to: ArchiveDestination,
}

/// Where an archive is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ArchiveDestination {
    /// A file in the current folder whose name has the time.
    Named,
    /// This file.
    File(PathBuf),
    /// Standard output (`-`).
    StandardOutput,
}

/// Arguments of `ui`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ui {
    /// The local port that the plugin forwards; 0 is any free one.
    pub(crate) port: u16,
}

/// Arguments of `top`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Top {
    /// The order of the rules.
    pub(crate) sort: TopOrder,
    /// Time between two tables.
    pub(crate) interval: Duration,
    /// Prints one table, also on a terminal.
    pub(crate) once: bool,
    /// Includes rules without requests.
    pub(crate) all: bool,
    /// The output format.
    pub(crate) output: Output,
}

/// The order of rules in `top`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TopOrder {
    /// Most requests first.
    Rate,
    /// Most server errors first.
    Errors,
    /// Longest p99 first.
    Latency,
}

impl TopOrder {
    /// Returns its name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Errors => "errors",
            Self::Latency => "latency",
        }
    }
}

/// Returns the grammars of the subcommands.
pub(super) fn grammars() -> [clap::Command; 5] {
    [top_grammar(), tap_grammar(), trace_next_grammar(), bundle_grammar(), ui_grammar()]
        .map(|command| command.args(admin_arguments()))
}

fn tap_grammar() -> clap::Command {
    clap::Command::new(TAP)
        .about("Print requests as they end, without header fields and values of secret parameters")
        .args(request_arguments())
        .arg(flag(SAMPLE, "SHARE", "the share of requests to read, such as 0.1"))
        .arg(flag(COUNT, "NUMBER", "end after so many requests, at least 1"))
        .arg(output_argument())
}

fn trace_next_grammar() -> clap::Command {
    clap::Command::new(TRACE_NEXT)
        .about("Print every step of the next request: rule, checks, attempts, header fields without secrets")
        .args(request_arguments())
        .arg(output_argument())
}

/// Returns the arguments that select live requests.
fn request_arguments() -> Vec<Arg> {
    vec![
        flag(HOST, "NAME", "requests for this host; *.shop.example stands for all names below"),
        flag(PATH, "PREFIX", "requests whose path begins so"),
        flag(METHOD, "METHOD", "requests with this method"),
        flag(STATUS, "STATUS", "answered with this status or class (404, 5xx); may be given several times")
            .action(ArgAction::Append),
        flag(CLIENT, "NETWORK", "of clients in this network (192.0.2.0/24); may be given several times")
            .action(ArgAction::Append),
        flag(MIN_DURATION, "DURATION", "that took at least so long, such as 250ms"),
        flag(FOR, "DURATION", "how long to read requests, up to 1h").default_value("5m"),
    ]
}

fn bundle_grammar() -> clap::Command {
    clap::Command::new(BUNDLE)
        .about("Write an archive for a bug report: configuration without secrets, problems, metrics, log, versions")
        .arg(flag(FILE, "FILE", "the .tar.gz to write, - for standard output [default: sluice-bundle-TIME.tar.gz]").short('o'))
}

fn ui_grammar() -> clap::Command {
    clap::Command::new(UI).about("Print the address of the web page").arg(
        flag(PORT, "PORT", "local port that kubectl sluice ui forwards; 0 is any free one")
            .default_value("0"),
    )
}

fn top_grammar() -> clap::Command {
    clap::Command::new(TOP)
        .about("Print rules by requests per second, share of errors and latency, refreshed on a terminal")
        .arg(flag(SORT, "ORDER", "rate, errors or latency").default_value("rate"))
        .arg(
            flag(INTERVAL, "DURATION", "time between two tables, and covered by a single one")
                .default_value("2s"),
        )
        .arg(switch(ONCE, "print one table, also on a terminal"))
        .arg(switch(ALL, "also print rules without requests"))
        .arg(output_argument())
}

fn flag(name: &'static str, value: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).value_name(value).help(help)
}

/// Parses the arguments of a subcommand.
pub(super) fn parse(name: &str, matches: &ArgMatches) -> Result<ObserveArguments, FlagError> {
    let admin_address = admin_address(matches)?;
    let action = match name {
        TAP => Observation::Tap(tap(matches)?),
        TRACE_NEXT => {
            let (requests, output) = (live_requests(matches)?, output(matches)?);
            Observation::TraceNext(TraceNext { requests, output })
        }
        BUNDLE => {
            let to = match matches.get_one::<String>(FILE).map(String::as_str) {
                None => ArchiveDestination::Named,
                Some("-") => ArchiveDestination::StandardOutput,
                Some(file) => ArchiveDestination::File(file.into()),
            };
            Observation::Bundle(Bundle { to })
        }
        UI => {
            Observation::Ui(Ui { port: number(matches, PORT, "a port number from 0 to 65535")?.unwrap_or(0) })
        }
        _ => Observation::Top(top(matches)?),
    };
    Ok(ObserveArguments { admin_address, action })
}

fn top(matches: &ArgMatches) -> Result<Top, FlagError> {
    let sort = match text(matches, SORT) {
        "errors" => TopOrder::Errors,
        "latency" => TopOrder::Latency,
        "rate" => TopOrder::Rate,
        other => return Err(wrong(SORT, other, "rate, errors or latency")),
    };
    let interval = duration(matches, INTERVAL, Duration::from_millis(500)..=Duration::from_secs(300))
        .ok_or_else(|| wrong(INTERVAL, text(matches, INTERVAL), "a duration from 500ms to 5m, such as 2s"))?;
    Ok(Top {
        sort,
        interval,
        once: is_on(matches, ONCE)?,
        all: is_on(matches, ALL)?,
        output: output(matches)?,
    })
}

fn tap(matches: &ArgMatches) -> Result<TapArguments, FlagError> {
    let mut requests = live_requests(matches)?;
    requests.parameters.extend(matches.get_one(SAMPLE).cloned().map(|share| (SAMPLE, share)));
    let count = number(matches, COUNT, "a number from 1")?;
    Ok(TapArguments { requests, count, output: output(matches)? })
}

fn live_requests(matches: &ArgMatches) -> Result<LiveRequests, FlagError> {
    let mut parameters = Vec::new();
    for name in [HOST, PATH, METHOD, STATUS, CLIENT] {
        let values = matches.get_many::<String>(name).into_iter().flatten();
        parameters.extend(values.map(|value| (name, value.clone())));
    }
    if let Some(text) = matches.get_one::<String>(MIN_DURATION) {
        let time =
            value::duration(text).map_err(|_| wrong(MIN_DURATION, text, "a duration such as 250ms"))?;
        parameters.push(("min-millis", (time.as_micros() as f64 / 1000.0).to_string()));
    }
    let time = duration(matches, FOR, Duration::from_secs(1)..=Duration::from_secs(3600))
        .ok_or_else(|| wrong(FOR, text(matches, FOR), "a duration from 1s to 1h, such as 5m"))?;
    Ok(LiveRequests { parameters, time })
}

fn number<T: std::str::FromStr>(
    matches: &ArgMatches,
    name: &'static str,
    expected: &'static str,
) -> Result<Option<T>, FlagError> {
    let given = matches.get_one::<String>(name);
    given.map(|text| text.parse().map_err(|_| wrong(name, text, expected))).transpose()
}

/// Returns the value of a flag; empty without one.
fn text<'m>(matches: &'m ArgMatches, name: &str) -> &'m str {
    matches.get_one::<String>(name).map_or("", String::as_str)
}

fn duration(matches: &ArgMatches, name: &str, range: std::ops::RangeInclusive<Duration>) -> Option<Duration> {
    value::duration(text(matches, name)).ok().filter(|duration| range.contains(duration))
}

fn wrong(flag: &'static str, value: &str, expected: &'static str) -> FlagError {
    FlagError::Value { flag, value: value.to_owned(), expected }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::{Command, parse};

    fn read(line: &str) -> Result<Observation, String> {
        let parsed = parse(line.split_whitespace().map(Into::into), |_| None);
        match parsed.map_err(|error| error.to_string())?.command {
            Command::Observe(observe) => Ok(observe.action),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn live_requests_are_selected_by_parameters_of_the_query() {
        let line = "tap --host a.example --status 5xx --status 404 --min-duration 1.5s --sample 0.1 --for 10s --count 3";
        let Observation::Tap(tap) = read(line).unwrap() else { panic!() };
        let parameters: Vec<_> =
            tap.requests.parameters.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            parameters,
            ["host=a.example", "status=5xx", "status=404", "min-millis=1500", "sample=0.1"]
        );
        assert_eq!((tap.requests.time, tap.count), (Duration::from_secs(10), NonZeroU64::new(3)));
        let Observation::TraceNext(trace) = read("trace-next --path /cart").unwrap() else { panic!() };
        assert_eq!(trace.requests.parameters, [("path", "/cart".to_owned())]);
        for (line, part) in [
            ("tap --for 2h", "from 1s to 1h"),
            ("tap --min-duration soon", "such as 250ms"),
            ("tap --count many", "a number from 1"),
            ("tap --count 0", "a number from 1"),
            ("trace-next --sample 0.1", "unknown flag --sample"),
            ("ui --port 70000", "from 0 to 65535"),
        ] {
            let message = read(line).unwrap_err();
            assert!(message.contains(part), "{line}: {message}");
        }
        for (line, to) in [
            ("bundle", ArchiveDestination::Named),
            ("bundle -o b.tar.gz", ArchiveDestination::File("b.tar.gz".into())),
            ("bundle -o -", ArchiveDestination::StandardOutput),
        ] {
            assert_eq!(read(line).unwrap(), Observation::Bundle(Bundle { to }), "{line}");
        }
        assert_eq!(read("ui --port 8080").unwrap(), Observation::Ui(Ui { port: 8080 }));
    }

    #[test]
    fn top_has_an_order_and_an_interval() {
        let Observation::Top(top) = read("top").unwrap() else { panic!() };
        assert_eq!(
            (top.sort, top.interval, top.once, top.all),
            (TopOrder::Rate, Duration::from_secs(2), false, false)
        );
        let text = "top --sort latency --interval 500ms --once --all -o json";
        let Observation::Top(top) = read(text).unwrap() else { panic!() };
        assert_eq!((top.sort, top.interval), (TopOrder::Latency, Duration::from_millis(500)));
        assert!(top.once && top.all && top.output == Output::Json);
        for (line, part) in [
            ("top --sort name", "rate, errors or latency"),
            ("top --interval 1ms", "from 500ms to 5m"),
            ("top --interval soon", "from 500ms to 5m"),
            ("top --host a.example", "unknown flag --host"),
        ] {
            let message = read(line).unwrap_err();
            assert!(message.contains(part), "{line}: {message}");
        }
    }
}
