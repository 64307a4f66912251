//! GeoIP2 databases.

use super::super::value::Destination::To;
use super::super::value::Value::{Duration, File, Int, List, Text};
use super::{Flag, flag};

pub(super) const FLAGS: &[Flag] = &[
    flag(
        "geoip-path",
        File(To(|f| &mut f.geoip.path)),
        "/etc/ingress-controller/geoip",
        "Folder with the GeoIP2 databases, EDITION.mmdb, which are read while use-geoip2 in the ConfigMap is true",
    ),
    flag(
        "maxmind-edition-ids",
        List(To(|f| &mut f.geoip.editions)),
        "GeoLite2-City,GeoLite2-ASN",
        "Editions of the GeoIP2 databases",
    ),
    flag(
        "maxmind-license-key",
        Text(To(|f| &mut f.geoip.license_key)),
        "",
        "Key with which the databases are downloaded from MaxMind at the start, into --geoip-path; empty for no \
         download",
    )
    .secret(),
    flag(
        "maxmind-mirror",
        Text(To(|f| &mut f.geoip.mirror)),
        "",
        "URL to which /EDITION.tar.gz is appended, to download the databases from it instead",
    ),
    flag("maxmind-retries-count", Int(To(|f| &mut f.geoip.retries_count)), "1", "Attempts at a download"),
    flag(
        "maxmind-retries-timeout",
        Duration(To(|f| &mut f.geoip.retries_timeout)),
        "0s",
        "Delay between the first two attempts, which grows by half; 0s for one attempt",
    ),
];
