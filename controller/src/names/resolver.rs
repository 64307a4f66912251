//! The DNS resolver configured by `resolv.conf`, and the interpretation of its answers.
//!
//! The file is that of the Pod: name servers, search domains, `ndots`, `timeout` and `attempts`
//! apply as for all other programs in the Pod. A name server may have a port in the notation of
//! OpenBSD, `[127.0.0.1]:5353`.

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hickory_resolver::TokioResolver;
use hickory_resolver::config::{LookupIpStrategy, ResolverConfig};
use hickory_resolver::net::runtime::TokioRuntimeProvider;
use hickory_resolver::net::{DnsError, NetError};
use hickory_resolver::proto::op::ResponseCode;
use hickory_resolver::system_conf::parse_resolv_conf;
use tokio::time::timeout;

/// Time limit for a lookup, including all search domains and attempts.
const LONGEST: Duration = Duration::from_secs(30);
/// How long a negative answer is cached: less than the interval between two lookups of a name.
const LONGEST_NO: Duration = Duration::from_secs(1);
/// Maximum number of addresses per name.
const MOST: usize = 64;
/// File with addresses of names that are not in DNS.
const HOSTS: &str = "/etc/hosts";

/// Result of a lookup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LookupResult {
    /// Sorted, without duplicates.
    pub(super) addresses: Vec<IpAddr>,
    /// Time to live of the answer: the minimum over its records.
    pub(super) holds: Duration,
}

/// The resolver for the current configuration files of this machine.
pub(super) struct Resolver {
    path: PathBuf,
    /// Contents of the files from which `resolver` was created.
    made_of: Option<[Vec<u8>; 2]>,
    resolver: Result<TokioResolver, String>,
}

impl Resolver {
    /// `path` is the path of `resolv.conf`.
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, made_of: None, resolver: Err(String::new()) }
    }

    /// Returns the resolver, recreated if a file has changed, as happens with DHCP.
    ///
    /// # Errors
    /// The configuration is unusable; the error states the reason.
    pub(super) fn current(&mut self) -> Result<TokioResolver, String> {
        let file = match fs::read(&self.path) {
            Ok(file) => file,
            // The name server is then on this machine: resolv.conf(5).
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(format!("{} cannot be read: {error}", self.path.display())),
        };
        let files = [file, fs::read(HOSTS).unwrap_or_default()];
        if self.made_of.as_ref() != Some(&files) {
            self.resolver =
                make(&files[0]).map_err(|error| format!("{} cannot be used: {error}", self.path.display()));
            self.made_of = Some(files);
        }
        self.resolver.clone()
    }
}

/// Creates the resolver for a `resolv.conf`. Must be called in a runtime.
fn make(file: &[u8]) -> Result<TokioResolver, String> {
    let (text, ports) = split_ports(&String::from_utf8_lossy(file));
    let (config, mut options) = parse_resolv_conf(text).map_err(|error| error.to_string())?;
    let (_, search, mut servers) = config.into_parts();
    for (server, port) in servers.iter_mut().zip(ports) {
        server.connections.iter_mut().for_each(|connection| connection.port = port);
    }
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    options.negative_max_ttl = Some(LONGEST_NO);
    // Without the machine's own domain: it only applies if there are no search domains, and is one
    // of them then.
    let config = ResolverConfig::from_parts(None, search, servers);
    let builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
    builder.with_options(options).build().map_err(|error| error.to_string())
}

/// Returns the text in the format of resolv.conf(5), and the port of each name server. Without a
/// name server, the default is this machine.
fn split_ports(text: &str) -> (String, Vec<u16>) {
    let (mut plain, mut ports) = (String::with_capacity(text.len()), Vec::new());
    for line in text.lines() {
        let server = line.trim().strip_prefix("nameserver").filter(|rest| rest.starts_with([' ', '\t']));
        match server.and_then(|server| read_server(server.trim())) {
            Some(address) => {
                ports.push(address.port());
                plain += &format!("nameserver {}", address.ip());
            }
            // A malformed name server is ignored.
            None if server.is_some() => {}
            None => plain += line,
        }
        plain.push('\n');
    }
    if ports.is_empty() {
        ports.push(53);
        plain += "nameserver 127.0.0.1\n";
    }
    (plain, ports)
}

/// Parses `IP` or `[IP]:PORT`.
fn read_server(text: &str) -> Option<SocketAddr> {
    let text = text.split_whitespace().next()?;
    if let Ok(ip) = text.parse() {
        return Some(SocketAddr::new(ip, 53));
    }
    let (ip, port) = text.strip_prefix('[')?.split_once("]:")?;
    Some(SocketAddr::new(ip.parse().ok()?, port.parse().ok()?))
}

/// Looks up a name.
///
/// # Errors
/// There is no address. The text is the same for the same reason, so that it can be compared.
pub(super) async fn look_up(resolver: TokioResolver, name: &str) -> Result<LookupResult, String> {
    let answer = match timeout(LONGEST, resolver.lookup_ip(name)).await {
        Err(_) | Ok(Err(NetError::Timeout)) => return Err("no name server answers".to_owned()),
        Ok(Err(error)) => return Err(why(&error)),
        Ok(Ok(answer)) => answer,
    };
    let addresses: BTreeSet<IpAddr> = answer.iter().map(|address| address.to_canonical()).collect();
    let holds = answer.valid_until().saturating_duration_since(Instant::now());
    let addresses = with_route(addresses.into_iter().take(MOST).collect(), has_route);
    match addresses.is_empty() {
        true => Err(NO_ADDRESSES.to_owned()),
        false => Ok(LookupResult { addresses, holds }),
    }
}

const NO_ADDRESSES: &str = "it has no addresses";

fn why(error: &NetError) -> String {
    match error {
        NetError::Dns(DnsError::NoRecordsFound(none)) => match none.response_code {
            ResponseCode::NXDomain => "it does not exist (NXDOMAIN)".to_owned(),
            ResponseCode::NoError => NO_ADDRESSES.to_owned(),
            code => format!("the name server answers {code}"),
        },
        NetError::Dns(DnsError::ResponseCode(code)) => format!("the name server answers {code}"),
        other => other.to_string(),
    }
}

/// Returns the addresses to which this machine has a route, or all if there are none. Otherwise a
/// Pod with addresses of one family could not connect to half of the addresses of a dual-stack
/// name.
fn with_route(addresses: Vec<IpAddr>, has_route: impl Fn(IpAddr) -> bool) -> Vec<IpAddr> {
    let within: Vec<IpAddr> = addresses.iter().copied().filter(|address| has_route(*address)).collect();
    if within.is_empty() { addresses } else { within }
}

/// Sends nothing: connecting a datagram socket only looks up a route.
fn has_route(address: IpAddr) -> bool {
    let own = match address {
        IpAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    UdpSocket::bind((own, 0)).and_then(|socket| socket.connect((address, 53))).is_ok()
}

/// The default path of `resolv.conf`.
pub(super) fn usual() -> &'static Path {
    Path::new("/etc/resolv.conf")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_server_may_have_a_port_and_without_one_it_is_this_machine() {
        let text =
            "# a Pod's\nnameserver 10.96.0.10\nsearch a.svc b\nnameserver\t[fd00::1]:5353 \noptions ndots:5";
        let (plain, ports) = split_ports(text);
        let expected =
            "# a Pod's\nnameserver 10.96.0.10\nsearch a.svc b\nnameserver fd00::1\noptions ndots:5\n";
        assert_eq!((&*plain, ports), (expected, vec![53, 5353]));
        for text in ["", "nameserver nonsense", "nameservers 10.0.0.1"] {
            let (plain, ports) = split_ports(text);
            assert!(plain.ends_with("nameserver 127.0.0.1\n") && ports == [53], "{plain}");
        }
    }

    #[test]
    fn addresses_without_a_route_are_left_out_unless_there_are_no_others() {
        let [v4, v6] = ["203.0.113.7", "2001:db8::7"].map(|address| address.parse::<IpAddr>().unwrap());
        assert_eq!(with_route(vec![v4, v6], |address| address.is_ipv4()), [v4]);
        assert_eq!(with_route(vec![v4, v6], |_| false), [v4, v6]);
        assert!(has_route(Ipv4Addr::LOCALHOST.into()));
    }

    #[tokio::test]
    async fn a_resolver_is_made_anew_when_its_file_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("resolv.conf");
        let mut resolver = Resolver::new(path.clone());
        assert_eq!(resolver.current().unwrap().options().ndots, 1, "there is no such file");
        fs::write(&path, "nameserver 10.0.0.1\noptions ndots:5\n").unwrap();
        assert_eq!(resolver.current().unwrap().options().ndots, 5);
        fs::write(&path, "nameserver 10.0.0.1\noptions ndots:2\n").unwrap();
        assert_eq!(resolver.current().unwrap().options().ndots, 2);
    }
}
