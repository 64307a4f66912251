//! Small GeoIP2 databases, and archives of them.

use flate2::Compression;
use flate2::write::GzEncoder;
use maxminddb_writer::Database;
use maxminddb_writer::metadata::IpVersion;
use maxminddb_writer::paths::IpAddrWithMask;
use serde_json::{Value, json};
use tar::{Builder, Header};

/// Returns a database in which one network is in a country.
pub fn country(network: &str, code: &str) -> Vec<u8> {
    database("GeoLite2-Country", network, &json!({ "country": { "iso_code": code } }))
}

/// Returns a database in which one network is in a city.
pub fn city(network: &str, country: &str, city: &str, latitude: f64) -> Vec<u8> {
    let record = json!({
        "country": { "iso_code": country },
        "city": { "names": { "en": city } },
        "location": { "latitude": latitude },
    });
    database("GeoLite2-City", network, &record)
}

/// Returns a database in an archive, as MaxMind publishes it: in a folder with the date, and
/// compressed.
pub fn archive(edition: &str, database: &[u8]) -> Vec<u8> {
    let mut archive = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (name, content) in [("LICENSE.txt", &b"a licence"[..]), (&format!("{edition}.mmdb"), database)] {
        let mut header = Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        archive.append_data(&mut header, format!("{edition}_20261124/{name}"), content).expect("an entry");
    }
    archive.into_inner().and_then(GzEncoder::finish).expect("an archive")
}

fn database(kind: &str, network: &str, record: &Value) -> Vec<u8> {
    let mut database = Database::default();
    database.metadata.database_type = kind.to_owned();
    database.metadata.description.insert("en".to_owned(), "a test".to_owned());
    database.metadata.binary_format_major_version = 2;
    database.metadata.build_epoch = 1_790_000_000;
    if network.contains(':') {
        database.metadata.ip_version = IpVersion::V6;
    }
    let record = database.insert_value(record).expect("a record");
    database.insert_node(network.parse::<IpAddrWithMask>().expect("a network"), record);
    database.write_to(Vec::new()).expect("a database")
}
