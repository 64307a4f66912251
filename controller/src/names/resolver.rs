//! The resolver of names, as `resolv.conf` has it, and what its answers mean.
//!
//! The file is the Pod's own: name servers, search domains, `ndots`, `timeout` and `attempts` hold as they do for every
//! other program in the Pod. A name server may have a port in the notation of OpenBSD, `[127.0.0.1]:5353`.

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

/// How long one look-up may take, with all search domains and attempts.
const LONGEST: Duration = Duration::from_secs(30);
/// How long the resolver remembers that there is no such record: less than until a name is looked up again.
const LONGEST_NO: Duration = Duration::from_secs(1);
/// Addresses of one name.
const MOST: usize = 64;
/// Where addresses of names are told beside DNS.
const HOSTS: &str = "/etc/hosts";

/// What a look-up has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Sorted, each once.
    pub(super) addresses: Vec<IpAddr>,
    /// The time to live of the answer, which is that of the record that ends first.
    pub(super) holds: Duration,
}

/// The resolver that the files of this machine describe now.
pub(super) struct Resolver {
    path: PathBuf,
    /// What the files said when it was made.
    made_of: Option<[Vec<u8>; 2]>,
    resolver: Result<TokioResolver, String>,
}

impl Resolver {
    /// `path` is that of `resolv.conf`.
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, made_of: None, resolver: Err(String::new()) }
    }

    /// The resolver, made anew if a file has changed: on a machine with DHCP they do. The error says why there is none.
    pub(super) fn current(&mut self) -> Result<TokioResolver, String> {
        let file = match fs::read(&self.path) {
            Ok(file) => file,
            // Then the name server is on this machine: resolv.conf(5).
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

/// The resolver that this `resolv.conf` describes. Must be called in a runtime.
fn make(file: &[u8]) -> Result<TokioResolver, String> {
    let (text, ports) = split_ports(&String::from_utf8_lossy(file));
    let (config, mut options) = parse_resolv_conf(text).map_err(|error| error.to_string())?;
    let (_, search, mut servers) = config.into_parts();
    for (server, port) in servers.iter_mut().zip(ports) {
        server.connections.iter_mut().for_each(|connection| connection.port = port);
    }
    options.ip_strategy = LookupIpStrategy::Ipv4AndIpv6;
    options.negative_max_ttl = Some(LONGEST_NO);
    // Without the domain of the machine's own name, which counts only where there are no search domains, and then is in them.
    let config = ResolverConfig::from_parts(None, search, servers);
    let builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
    builder.with_options(options).build().map_err(|error| error.to_string())
}

/// The text as resolv.conf(5) has it, and the port of each name server. Where there is no name server it is that of this
/// machine.
fn split_ports(text: &str) -> (String, Vec<u16>) {
    let (mut plain, mut ports) = (String::with_capacity(text.len()), Vec::new());
    for line in text.lines() {
        let server = line.trim().strip_prefix("nameserver").filter(|rest| rest.starts_with([' ', '\t']));
        match server.and_then(|server| read_server(server.trim())) {
            Some(address) => {
                ports.push(address.port());
                plain += &format!("nameserver {}", address.ip());
            }
            // One that cannot be read is no name server for anybody.
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

/// `IP`, or `[IP]:PORT`.
fn read_server(text: &str) -> Option<SocketAddr> {
    let text = text.split_whitespace().next()?;
    if let Ok(ip) = text.parse() {
        return Some(SocketAddr::new(ip, 53));
    }
    let (ip, port) = text.strip_prefix('[')?.split_once("]:")?;
    Some(SocketAddr::new(ip.parse().ok()?, port.parse().ok()?))
}

/// Looks a name up. The error says why there is no address, in the same words each time.
pub(super) async fn look_up(resolver: TokioResolver, name: &str) -> Result<Found, String> {
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
        false => Ok(Found { addresses, holds }),
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

/// Those that this machine has a route to, or all if there is none: a Pod with addresses of one family alone could not
/// connect to half of what a name with both has.
fn with_route(addresses: Vec<IpAddr>, has_route: impl Fn(IpAddr) -> bool) -> Vec<IpAddr> {
    let within: Vec<IpAddr> = addresses.iter().copied().filter(|address| has_route(*address)).collect();
    if within.is_empty() { addresses } else { within }
}

/// Nothing is sent: a datagram socket is connected by looking for a route.
fn has_route(address: IpAddr) -> bool {
    let own = match address {
        IpAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
    };
    UdpSocket::bind((own, 0)).and_then(|socket| socket.connect((address, 53))).is_ok()
}

/// Where `resolv.conf` is unless the command line says otherwise.
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
