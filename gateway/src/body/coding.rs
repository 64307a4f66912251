//! Content codings: those that a client accepts (RFC 9110 §12.5.3) and those that Sluice produces.

use crate::message::fields::Fields;
use http::header::ACCEPT_ENCODING;

/// A content coding that Sluice produces. The order decides between codings of equal weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Coding {
    Zstd,
    Brotli,
    Gzip,
}

impl Coding {
    pub(crate) const ALL: [Self; 3] = [Self::Zstd, Self::Brotli, Self::Gzip];

    /// Returns the name of the coding in `Content-Encoding` and `Accept-Encoding`.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Brotli => "br",
            Self::Gzip => "gzip",
        }
    }

    fn is_named(self, name: &[u8]) -> bool {
        name.eq_ignore_ascii_case(self.name().as_bytes())
            // `x-gzip` is an alias (RFC 9110 §8.4.1.3).
            || self == Self::Gzip && name.eq_ignore_ascii_case(b"x-gzip")
    }
}

/// The client's weight for each coding in thousandths, in the order of [`Coding::ALL`]. 0 means not
/// acceptable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Accepted([u16; 3]);

impl Accepted {
    /// Parses `Accept-Encoding`. Without this field no coding is used, because the client may
    /// support none.
    pub(crate) fn read(head: &impl Fields) -> Self {
        let mut named = [None; 3];
        let mut any = 0;
        for element in head.lines(&ACCEPT_ENCODING).flat_map(|line| line.split(|byte| *byte == b',')) {
            let mut parts = element.split(|byte| *byte == b';');
            let name = parts.next().unwrap_or_default().trim_ascii();
            let Some(weight) = weight(parts) else { continue };
            if name == b"*" {
                any = weight;
            }
            for (slot, coding) in named.iter_mut().zip(Coding::ALL) {
                if coding.is_named(name) {
                    *slot = Some(weight);
                }
            }
        }
        Self(named.map(|weight| weight.unwrap_or(any)))
    }

    /// Returns the coding with the highest weight among those that `can` allows. Equal weights are
    /// decided by the order of [`Coding::ALL`].
    pub(crate) fn best(self, can: impl Fn(Coding) -> bool) -> Option<Coding> {
        let mut best: Option<(u16, Coding)> = None;
        for (weight, coding) in self.0.into_iter().zip(Coding::ALL) {
            if weight > best.map_or(0, |(best, _)| best) && can(coding) {
                best = Some((weight, coding));
            }
        }
        best.map(|(_, coding)| coding)
    }
}

/// Returns the weight from the parameters, 1000 without a `q` parameter, `None` if it is malformed.
fn weight<'p>(parameters: impl Iterator<Item = &'p [u8]>) -> Option<u16> {
    for parameter in parameters {
        let parameter = parameter.trim_ascii();
        if let [b'q' | b'Q', b'=', value @ ..] = parameter {
            return thousandths(value);
        }
    }
    Some(1000)
}

/// Parses a weight such as `0.5` into thousandths (RFC 9110 §12.4.2).
fn thousandths(value: &[u8]) -> Option<u16> {
    let (whole, fraction) = match value {
        [whole @ (b'0' | b'1')] | [whole @ (b'0' | b'1'), b'.'] => (*whole, &[][..]),
        [whole @ (b'0' | b'1'), b'.', fraction @ ..] if fraction.len() <= 3 => (*whole, fraction),
        _ => return None,
    };
    let mut sum = u16::from(whole - b'0') * 1000;
    for (digit, worth) in fraction.iter().zip([100, 10, 1]) {
        sum += u16::from(digit.checked_sub(b'0').filter(|digit| *digit < 10)?) * worth;
    }
    (sum <= 1000).then_some(sum)
}

#[cfg(test)]
mod tests {
    use http::{HeaderMap, HeaderValue};

    use super::*;

    fn best(text: &str) -> Option<Coding> {
        let mut head = HeaderMap::new();
        for line in text.split('|') {
            head.append(ACCEPT_ENCODING, HeaderValue::from_str(line).unwrap());
        }
        Accepted::read(&head).best(|_| true)
    }

    #[test]
    fn the_client_determines_the_coding() {
        use Coding::{Brotli, Gzip, Zstd};
        for (text, expected) in [
            ("", None),
            ("gzip", Some(Gzip)),
            ("GZip", Some(Gzip)),
            ("x-gzip", Some(Gzip)),
            ("gzip, deflate, br", Some(Brotli)),
            ("gzip, deflate, br, zstd", Some(Zstd)),
            ("gzip|br", Some(Brotli)),
            ("gzip;q=0.5, br;q=0.4", Some(Gzip)),
            ("gzip ; Q=1.000 , br;q=0.999", Some(Gzip)),
            ("gzip;q=0", None),
            ("gzip;q=0.000, *;q=0", None),
            ("*", Some(Zstd)),
            ("*, zstd;q=0", Some(Brotli)),
            ("*;q=0.1, gzip;q=0.2", Some(Gzip)),
            ("identity", None),
            ("deflate", None),
            ("gzipped, brotli", None),
            ("gzip;q=1.1", None),
            ("gzip;q=-1, br;q=0.0001", None),
            ("gzip;q=", None),
            ("gzip;level=1;q=0.3", Some(Gzip)),
            (",,gzip,,", Some(Gzip)),
        ] {
            assert_eq!(best(text), expected, "{text:?}");
        }
        assert_eq!(Accepted::read(&HeaderMap::new()).best(|_| true), None);
    }

    #[test]
    fn unsupported_codings_are_skipped() {
        let mut head = HeaderMap::new();
        head.append(ACCEPT_ENCODING, HeaderValue::from_static("br, gzip;q=0.1"));
        assert_eq!(Accepted::read(&head).best(|coding| coding != Coding::Brotli), Some(Coding::Gzip));
        assert_eq!(Accepted::read(&head).best(|_| false), None);
    }
}
