//! GeoIP databases.

use super::super::value::Destination::Nowhere;
use super::super::value::Value::{Duration, Int, List, Text};
use super::{Flag, flag};

/// Reason why these flags have no effect.
const NO_GEOIP: &str = "GeoIP databases are not read and nothing is downloaded; remove this flag";

pub(super) const FLAGS: &[Flag] = &[
    flag("maxmind-license-key", Text(Nowhere(NO_GEOIP)), "", "Key for the download"),
    flag("maxmind-edition-ids", List(Nowhere(NO_GEOIP)), "GeoLite2-City,GeoLite2-ASN", "Databases"),
    flag("maxmind-mirror", Text(Nowhere(NO_GEOIP)), "", "URL of a mirror"),
    flag("maxmind-retries-count", Int(Nowhere(NO_GEOIP)), "1", "Attempts at a download"),
    flag("maxmind-retries-timeout", Duration(Nowhere(NO_GEOIP)), "0s", "Delay between attempts"),
];
