//! `geo [$ADDRESS] $NAME { }` (`ngx_http_geo_module`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use sluice_config::{
    AddressRange, AddressTable, ComputedVariable, InvalidNetwork, Network, Template, TemplatePiece,
    ValueTable, Variable,
};

use super::computed::ComputedBuilder;
use super::fault::{Fault, Untranslated};
use super::grammar::Directive;

/// Values of addresses of both versions, as they are read.
#[derive(Default)]
struct Entries {
    v4: Vec<Interval>,
    v6: Vec<Interval>,
    default: Option<Arc<str>>,
}

/// The first and the last address, and the value.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Interval {
    first: u128,
    last: u128,
    value: Arc<str>,
}

/// Reads the directive with its entries. Returns the translation in words.
///
/// # Errors
/// The first entry that nginx would refuse, or that Sluice does not support.
pub(super) fn read(
    directive: &Directive,
    lines: &[Directive],
    computed: &mut ComputedBuilder,
) -> Result<String, Untranslated> {
    let fail = |fault| directive.fault(fault);
    let (source, name) = match &directive.arguments[..] {
        [name] => (Template { pieces: vec![TemplatePiece::Variable(Variable::RemoteAddr)] }, name),
        [source, name] if source.starts_with('$') => (computed.template(source).map_err(fail)?, name),
        _ => {
            return Err(fail(
                "takes the variable of an address, if wanted, and the name of a variable".into(),
            ));
        }
    };
    let variable = computed.name(name).map_err(fail)?;
    let has_ranges = lines.iter().any(|line| line.name == "ranges" && line.arguments.is_empty());
    let mut entries = Entries::default();
    for line in lines {
        entries.read(line, has_ranges).map_err(|fault| line.fault(fault))?;
    }
    let table = ValueTable::Addresses(entries.table());
    computed
        .add(ComputedVariable { name: variable, source, table }, std::iter::empty::<&Template>())
        .map_err(fail)?;
    Ok(format!("{name} is looked up by address in a table of {}", lines.len()))
}

impl Entries {
    fn read(&mut self, line: &Directive, has_ranges: bool) -> Result<(), Fault> {
        let value = match (&*line.name, &line.arguments[..]) {
            _ if line.block.is_some() => return Err("an entry has no block".into()),
            ("ranges" | "volatile", []) => return Ok(()),
            ("include", _) => return Err("snippets reach no files; write the entries here".into()),
            ("proxy" | "proxy_recursive", _) => {
                let replacement = "the key proxy-real-ip-cidr, so that $remote_addr is the client";
                return Err(Fault::with("it is not translated", replacement));
            }
            ("delete", [network]) => return self.delete(network, has_ranges),
            (_, [value]) => Arc::from(value.as_str()),
            _ => return Err("takes a value".into()),
        };
        if line.name == "default" {
            self.default = Some(value);
            return Ok(());
        }
        let (is_v4, first, last) = interval(&line.name, has_ranges)?;
        let known = if is_v4 { &mut self.v4 } else { &mut self.v6 };
        let new = Interval { first, last, value };
        if let Some(same) = known.iter_mut().find(|known| (known.first, known.last) == (first, last)) {
            // nginx warns, and the last one counts.
            *same = new;
            return Ok(());
        }
        let contains =
            |outer: &Interval, inner: &Interval| outer.first <= inner.first && inner.last <= outer.last;
        let overlaps = |known: &&Interval| known.first <= last && first <= known.last;
        let is_bad = |known: &&Interval| !contains(known, &new) && (has_ranges || !contains(&new, known));
        if known.iter().filter(overlaps).any(|known| is_bad(&known)) {
            return Err("it overlaps a range before it, which nginx refuses".into());
        }
        known.push(new);
        Ok(())
    }

    fn delete(&mut self, text: &str, has_ranges: bool) -> Result<(), Fault> {
        let (is_v4, first, last) = interval(text, has_ranges)?;
        let known = if is_v4 { &mut self.v4 } else { &mut self.v6 };
        known.retain(|known| (known.first, known.last) != (first, last));
        Ok(())
    }

    fn table(self) -> AddressTable {
        let v4 = |address: u128| IpAddr::V4(Ipv4Addr::from(u32::try_from(address).unwrap_or(u32::MAX)));
        let v6 = |address: u128| IpAddr::V6(Ipv6Addr::from(address));
        let range = |to_address: fn(u128) -> IpAddr| {
            move |Interval { first, last, value }| AddressRange {
                first: to_address(first),
                last: to_address(last),
                value,
            }
        };
        let ranges = disjoint(self.v4).into_iter().map(range(v4));
        AddressTable {
            ranges: ranges.chain(disjoint(self.v6).into_iter().map(range(v6))).collect(),
            default: self.default.unwrap_or_else(|| "".into()),
        }
    }
}

/// Reads a network, or a range of addresses: whether it is of IPv4, its first and its last address.
fn interval(text: &str, has_ranges: bool) -> Result<(bool, u128, u128), Fault> {
    if has_ranges {
        let range = text.split_once('-').and_then(|(first, last)| {
            let number =
                |text: &str| text.parse::<Ipv4Addr>().ok().map(|address| u128::from(u32::from(address)));
            Some((number(first)?, number(last)?)).filter(|(first, last): &(u128, u128)| first <= last)
        });
        let (first, last) = range.ok_or_else(|| format!("{text:?} is not a range of IPv4 addresses"))?;
        return Ok((true, first, last));
    }
    Ok(ends(network(text)?))
}

/// Reads a network or an address.
pub(super) fn network(text: &str) -> Result<Network, String> {
    text.parse().map_err(|InvalidNetwork| format!("{text:?} is not a network or an address"))
}

fn ends(Network { address, prefix }: Network) -> (bool, u128, u128) {
    let (is_v4, number, bits, prefix) = match (address, address.to_canonical()) {
        (IpAddr::V6(_), IpAddr::V4(mapped)) if prefix >= 96 => {
            (true, u128::from(u32::from(mapped)), 32_u8, prefix - 96)
        }
        (IpAddr::V4(address), _) => (true, u128::from(u32::from(address)), 32, prefix),
        (IpAddr::V6(address), _) => (false, u128::from(address), 128, prefix),
    };
    let free = u32::from(bits).saturating_sub(prefix.into());
    let hosts = 1_u128.checked_shl(free).map_or(u128::MAX, |count| count - 1);
    (is_v4, number & !hosts, number | hosts)
}

/// Makes intervals disjoint that are disjoint or inside each other: the innermost counts.
fn disjoint(mut intervals: Vec<Interval>) -> Vec<Interval> {
    intervals.sort_by(|a, b| a.first.cmp(&b.first).then(b.last.cmp(&a.last)));
    let mut result: Vec<Interval> = Vec::new();
    let mut open: Vec<Interval> = Vec::new();
    // The first address that has no value yet; `None` behind the last address.
    let mut next = Some(0);
    for interval in intervals {
        while let Some(inner) = open.pop_if(|inner| inner.last < interval.first) {
            next = emit(&mut result, next, inner.last, &inner.value);
        }
        if let (Some(outer), Some(before)) = (open.last(), interval.first.checked_sub(1)) {
            emit(&mut result, next, before, &outer.value);
        }
        next = Some(interval.first);
        open.push(interval);
    }
    while let Some(inner) = open.pop() {
        next = emit(&mut result, next, inner.last, &inner.value);
    }
    result
}

/// Adds the interval from `first` to `last`, if it has addresses. Returns what follows it.
fn emit(result: &mut Vec<Interval>, first: Option<u128>, last: u128, value: &Arc<str>) -> Option<u128> {
    let first = first?;
    if first <= last {
        result.push(Interval { first, last, value: value.clone() });
        return last.checked_add(1);
    }
    Some(first)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::translate::snippet::http_level;

    /// The ranges of a table in words.
    fn ranges(text: &str) -> (Vec<String>, String) {
        let snippet = http_level::read(text).unwrap_or_else(|fault| panic!("{text}: {fault:?}"));
        match &snippet.computed[0].table {
            ValueTable::Addresses(AddressTable { ranges, default }) => {
                let words = |range: &AddressRange| format!("{}-{}={}", range.first, range.last, range.value);
                (ranges.iter().map(words).collect(), default.to_string())
            }
            ValueTable::Texts(_) => panic!("{snippet:?}"),
        }
    }

    #[test]
    fn the_most_specific_network_counts() {
        let text = "geo $zone {\n default none;\n 10.1.0.0/16 a;\n 10.0.0.0/8 b;\n 10.1.2.3 c;\n 2001:db8::/32 d;\n \
                    ::ffff:192.0.2.0/120 e;\n 10.1.2.3 f;\n 10.9.0.0/16 x;\n delete 10.9.0.0/16;\n}";
        let (ranges, default) = ranges(text);
        assert_eq!(
            ranges,
            [
                "10.0.0.0-10.0.255.255=b",
                "10.1.0.0-10.1.2.2=a",
                "10.1.2.3-10.1.2.3=f",
                "10.1.2.4-10.1.255.255=a",
                "10.2.0.0-10.255.255.255=b",
                "192.0.2.0-192.0.2.255=e",
                "2001:db8::-2001:db8:ffff:ffff:ffff:ffff:ffff:ffff=d",
            ]
        );
        assert_eq!(default, "none");
    }

    #[test]
    fn ranges_are_of_ipv4_and_split_those_before_them() {
        let text = "geo $http_x_client $zone { ranges; 10.0.0.0-10.0.0.9 a; 10.0.0.3-10.0.0.5 b; }";
        let (ranges, default) = ranges(text);
        assert_eq!(ranges, ["10.0.0.0-10.0.0.2=a", "10.0.0.3-10.0.0.5=b", "10.0.0.6-10.0.0.9=a"]);
        assert_eq!(default, "");
    }

    #[test]
    fn what_cannot_be_looked_up_is_refused_by_name() {
        for (text, part) in [
            ("geo $a { include /etc/geo; }", "snippets reach no files"),
            ("geo $a { proxy 10.0.0.0/8; }", "proxy-real-ip-cidr"),
            ("geo $a { 10.0.0.300 1; }", "is not a network"),
            ("geo $a { ranges; ::1-::2 1; }", "is not a range"),
            ("geo $a { ranges; 10.0.0.2-10.0.0.1 1; }", "is not a range"),
            ("geo $a { ranges; 10.0.0.0-10.0.0.9 1; 10.0.0.5-10.0.0.20 2; }", "overlaps"),
            ("geo $a { ranges; 10.0.0.3-10.0.0.5 1; 10.0.0.0-10.0.0.20 2; }", "overlaps"),
            ("geo { default 1; }", "the name of a variable"),
            ("geo host $a { default 1; }", "the variable of an address"),
        ] {
            let fault = http_level::read(text).unwrap_err();
            assert!(format!("{}; {}", fault.reason, fault.remedy).contains(part), "{text}: {fault:?}");
        }
    }

    proptest! {
        #[test]
        fn each_address_gets_the_value_of_its_longest_prefix(
            networks in prop::collection::vec((any::<u32>(), 0_u8..=32), 0..30),
            address in any::<u32>(),
        ) {
            // Few high bits, so that networks are inside each other.
            let networks: Vec<_> = networks.into_iter().map(|(bits, prefix)| (bits & 0xf00f_0000, prefix)).collect();
            let address = address & 0xf00f_ffff;
            let mut intervals: Vec<Interval> = Vec::new();
            let mut expected: Option<(u8, Arc<str>)> = None;
            for (at, (bits, prefix)) in networks.iter().enumerate() {
                let network = Network { address: Ipv4Addr::from(*bits).into(), prefix: *prefix };
                let (_, first, last) = ends(network);
                if intervals.iter().any(|known| (known.first, known.last) == (first, last)) {
                    continue;
                }
                let value: Arc<str> = at.to_string().into();
                if (first..=last).contains(&address.into()) && expected.as_ref().is_none_or(|(best, _)| prefix > best) {
                    expected = Some((*prefix, value.clone()));
                }
                intervals.push(Interval { first, last, value });
            }
            let found = disjoint(intervals);
            prop_assert!(found.windows(2).all(|pair| pair[0].last < pair[1].first));
            let value = found.iter().find(|range| (range.first..=range.last).contains(&address.into()));
            prop_assert_eq!(value.map(|range| range.value.clone()), expected.map(|(_, value)| value));
        }
    }
}
