//! Arguments of `sluice check` that `sluice serve` does not have: requests to check, the comparison
//! with a running controller, and the output.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{Arg, ArgAction, ArgMatches};

use super::arguments::{is_on, needs, switch};
use super::error::FlagError;
use super::settings::ServeFlags;
use super::table;

const OUTPUT: &str = "output";
const STRICT: &str = "strict";
const VALUES: &str = "values";
const RELEASE: &str = "release";
const URLS: &str = "urls";
const ACCESS_LOG: &str = "access-log";
const LOG_FORMAT: &str = "log-format";
const CLIENT: &str = "client";
const LIMIT: &str = "limit";
const AGAINST: &str = "against";
const NEW: &str = "new";
const COMPARE_HEADER: &str = "compare-header";
const CONCURRENCY: &str = "concurrency";
const RATE: &str = "rate";

/// Flags that have an effect only with another one.
const NEEDS: [(&str, &str); 6] = [
    (RELEASE, VALUES),
    (LOG_FORMAT, ACCESS_LOG),
    (NEW, AGAINST),
    (COMPARE_HEADER, AGAINST),
    (CONCURRENCY, AGAINST),
    (RATE, AGAINST),
];

/// Arguments of `sluice check`.
#[derive(Debug)]
pub(crate) struct CheckArguments {
    /// The flags of the gateway that would serve the objects.
    pub(crate) flags: ServeFlags,
    /// The output format.
    pub(crate) output: CheckOutput,
    /// Whether warnings count as failure.
    pub(crate) strict: bool,
    /// `--values` and `--release`: the chart values of the old installation, and its release.
    pub(crate) values: Option<(PathBuf, String)>,
    /// The flags that are given, which have precedence over those of the values.
    pub(crate) given: Vec<&'static str>,
    /// The given flags that have no effect, with the reason and what to do.
    pub(crate) without_effect: Vec<(&'static str, &'static str)>,
    /// Requests whose responses are reported.
    pub(crate) requests: RequestArguments,
    /// The comparison of two running controllers.
    pub(crate) comparison: Option<ComparisonArguments>,
}

/// Output format of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CheckOutput {
    /// Groups for a terminal.
    Text,
    /// All details as JSON.
    Json,
    /// A Markdown page.
    Markdown,
    /// A self-contained HTML page.
    Html,
}

/// Where requests come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RequestArguments {
    /// `--urls`: a list of URLs; `-` is standard input.
    pub(crate) urls: Option<PathBuf>,
    /// `--access-log`: the access log of the old controller; `-` is standard input.
    pub(crate) access_log: Option<PathBuf>,
    /// `--log-format`: its format, in place of that of the ConfigMap.
    pub(crate) log_format: Option<String>,
    /// `--client`: the client's address for requests that name none.
    pub(crate) client: Option<IpAddr>,
    /// `--limit`: maximum number of distinct requests.
    pub(crate) limit: usize,
}

/// A comparison of two running controllers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ComparisonArguments {
    /// `--against`: the old controller.
    pub(crate) old: ControllerAddress,
    /// `--new`: the new one; `None` is a gateway in this process.
    pub(crate) new: Option<ControllerAddress>,
    /// `--compare-header`: response fields that are compared, in lower case.
    pub(crate) headers: Vec<String>,
    /// `--concurrency`: maximum number of requests in progress.
    pub(crate) concurrency: usize,
    /// `--rate`: maximum number of requests per second.
    pub(crate) rate: u32,
}

/// The addresses of a controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ControllerAddress {
    /// The argument.
    pub(crate) text: String,
    /// Host and port for http.
    pub(crate) http: (String, u16),
    /// Host and port for https.
    pub(crate) https: (String, u16),
}

impl CheckArguments {
    /// Sets the flags of the old installation that are not given.
    ///
    /// # Errors
    /// A flag does not exist, or has an invalid value.
    pub(crate) fn set_flags(&mut self, flags: Vec<(String, String)>) -> Result<(), FlagError> {
        for (name, value) in flags.into_iter().filter(|(name, _)| !self.given.contains(&name.as_str())) {
            let Some(flag) = table::all().find(|flag| *flag.name == *name) else {
                return Err(FlagError::Unknown {
                    name: format!("--{name}"),
                    similar: None,
                    command: "check",
                });
            };
            let value = if value.is_empty() && flag.value.is_bool() { "true".to_owned() } else { value };
            flag.value.clear(&mut self.flags);
            flag.value.put(&value, &mut self.flags).map_err(|expected| FlagError::Value {
                flag: flag.name,
                value: value.clone(),
                expected,
            })?;
        }
        Ok(())
    }
}

impl ControllerAddress {
    /// Parses `HOST`, `HOST:PORT` or `HOST:PORT,HOST:PORT`. One port is used for both schemes.
    fn parse(text: &str) -> Option<Self> {
        let (http, https) = text.split_once(',').unwrap_or((text, text));
        Some(Self {
            text: text.to_owned(),
            http: host_and_port(http, 80)?,
            https: host_and_port(https, 443)?,
        })
    }
}

fn host_and_port(text: &str, default: u16) -> Option<(String, u16)> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some((address.to_string(), default));
    }
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (host, port.parse().ok().filter(|port| *port > 0)?),
        None => (text, default),
    };
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let is_host =
        |host: &str| host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-_".contains(&byte));
    let fits = !host.is_empty() && (is_host(host) || host.parse::<IpAddr>().is_ok());
    fits.then(|| (host.to_owned(), port))
}

/// Returns the arguments for clap.
pub(super) fn arguments() -> Vec<Arg> {
    let argument = |name: &'static str, value, help| Arg::new(name).long(name).value_name(value).help(help);
    let requests = "Effective responses: what requests get, and why";
    let comparison = "Comparison: safe requests to the old controller and to the new one";
    let request = |name, value, help| argument(name, value, help).help_heading(requests);
    let compared = |name, value, help| argument(name, value, help).help_heading(comparison);
    vec![
        Arg::new(OUTPUT)
            .short('o')
            .long(OUTPUT)
            .value_name("FORMAT")
            .default_value("text")
            .help("text, json, markdown, or html: one page without scripts that a team can share"),
        switch(STRICT, "exit with 1 for warnings too"),
        argument(VALUES, "FILE", "chart values of the old installation: its flags, ConfigMaps and refused values are checked too"),
        argument(RELEASE, "NAMESPACE/NAME", "namespace and name of the Helm release of --values")
            .default_value("ingress-nginx/ingress-nginx"),
        request(URLS, "FILE", "report what the URLs of a file get, one per line, with the method in front if it is not GET; - reads standard input"),
        request(ACCESS_LOG, "FILE", "report what the requests of the old controller's access log get, and compare it with the log; - reads standard input"),
        request(LOG_FORMAT, "FORMAT", "format of --access-log; by default log-format-upstream of the ConfigMap, or ingress-nginx's default"),
        request(CLIENT, "ADDRESS", "the client's address of requests that name none, for address lists"),
        request(LIMIT, "NUMBER", "maximum number of distinct requests").default_value("10000"),
        argument(AGAINST, "ADDRESS", "send the GET and HEAD requests to the old controller and to the new one, and report what differs: HOST, HOST:PORT, or HOST:PORT,HOST:PORT for http and https")
            .help_heading(comparison),
        compared(NEW, "ADDRESS", "the new controller; by default a gateway in this process with the same configuration"),
        compared(COMPARE_HEADER, "NAME", "also compare this response field; may be given several times").action(ArgAction::Append),
        compared(CONCURRENCY, "NUMBER", "maximum number of requests in progress").default_value("4"),
        compared(RATE, "NUMBER", "maximum number of requests per second, to each controller").default_value("20"),
    ]
}

/// Reads the arguments.
///
/// # Errors
/// A value is invalid, or an argument lacks another one.
pub(super) fn read(
    matches: &ArgMatches,
    flags: ServeFlags,
    given: Vec<&'static str>,
    without_effect: Vec<(&'static str, &'static str)>,
) -> Result<CheckArguments, FlagError> {
    needs(matches, &NEEDS)?;
    let requests = RequestArguments {
        urls: text(matches, URLS).map(PathBuf::from),
        access_log: text(matches, ACCESS_LOG).map(PathBuf::from),
        log_format: text(matches, LOG_FORMAT),
        client: parsed(matches, CLIENT, "an IP address, such as 203.0.113.7", |text| text.parse().ok())?,
        limit: number(matches, LIMIT)?,
    };
    let address = "HOST, HOST:PORT, or HOST:PORT,HOST:PORT for http and https";
    let comparison = match parsed(matches, AGAINST, address, ControllerAddress::parse)? {
        None => None,
        Some(old) => Some(ComparisonArguments {
            old,
            new: parsed(matches, NEW, address, ControllerAddress::parse)?,
            headers: headers(matches)?,
            concurrency: number(matches, CONCURRENCY)?,
            rate: u32::try_from(number(matches, RATE)?).unwrap_or(u32::MAX),
        }),
    };
    if comparison.is_some() && requests.urls.is_none() && requests.access_log.is_none() {
        return Err(FlagError::NoRequests);
    }
    if requests.urls.as_deref() == Some("-".as_ref()) && requests.access_log.as_deref() == Some("-".as_ref())
    {
        return Err(FlagError::Exclusive { one: "urls -", other: "access-log -" });
    }
    Ok(CheckArguments {
        flags,
        output: output(matches)?,
        strict: is_on(matches, STRICT)?,
        values: text(matches, VALUES).map(PathBuf::from).zip(text(matches, RELEASE)),
        given,
        without_effect,
        requests,
        comparison,
    })
}

fn output(matches: &ArgMatches) -> Result<CheckOutput, FlagError> {
    parsed(matches, OUTPUT, "text, json, markdown or html", |format| match format {
        "json" => Some(CheckOutput::Json),
        "markdown" => Some(CheckOutput::Markdown),
        "html" => Some(CheckOutput::Html),
        // `table` was the name of this format in earlier versions.
        "text" | "table" => Some(CheckOutput::Text),
        _ => None,
    })
    .map(|output| output.unwrap_or(CheckOutput::Text))
}

fn headers(matches: &ArgMatches) -> Result<Vec<String>, FlagError> {
    let given = matches.get_many::<String>(COMPARE_HEADER).into_iter().flatten();
    given
        .map(|name| match http::HeaderName::from_bytes(name.as_bytes()) {
            Ok(name) => Ok(name.as_str().to_owned()),
            Err(_) => {
                Err(invalid(COMPARE_HEADER, name, "the name of a response field, such as cache-control"))
            }
        })
        .collect()
}

fn number(matches: &ArgMatches, name: &'static str) -> Result<usize, FlagError> {
    let positive = |text: &str| text.parse().ok().filter(|number| *number > 0);
    parsed(matches, name, "a number from 1", positive).map(|number| number.unwrap_or(1))
}

fn text(matches: &ArgMatches, name: &str) -> Option<String> {
    matches.get_one::<String>(name).cloned()
}

fn parsed<T>(
    matches: &ArgMatches,
    name: &'static str,
    expected: &'static str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, FlagError> {
    let Some(value) = text(matches, name) else { return Ok(None) };
    parse(&value).map(Some).ok_or_else(|| invalid(name, &value, expected))
}

fn invalid(flag: &'static str, value: &str, expected: &'static str) -> FlagError {
    FlagError::Value { flag, value: value.to_owned(), expected }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_port_for_each_scheme() {
        let ports = |text: &str| {
            let address = ControllerAddress::parse(text)?;
            Some((address.http.0, address.http.1, address.https.0, address.https.1))
        };
        let same = |host: &str, http, https| Some((host.to_owned(), http, host.to_owned(), https));
        assert_eq!(ports("203.0.113.10"), same("203.0.113.10", 80, 443));
        assert_eq!(ports("old.example"), same("old.example", 80, 443));
        assert_eq!(ports("old.example:8443"), same("old.example", 8443, 8443));
        assert_eq!(ports("127.0.0.1:8080,127.0.0.1:8443"), same("127.0.0.1", 8080, 8443));
        assert_eq!(ports("2001:db8::1"), same("2001:db8::1", 80, 443));
        assert_eq!(ports("[2001:db8::1]:8080"), same("2001:db8::1", 8080, 8080));
        for wrong in ["", "http://old.example", "old.example:0", "old.example:port", "[2001:db8::1", "a b"] {
            assert_eq!(ports(wrong), None, "{wrong}");
        }
    }
}
