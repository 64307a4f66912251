//! The table of what GeoIP2 databases say about a client: ingress-nginx's `$geoip2_*` variables,
//! and the databases that they are read from.

use serde::{Deserialize, Serialize};

/// The kind of a database, by its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum LocationDatabase {
    /// Countries and continents.
    Country,
    /// Cities, with their countries.
    City,
    /// Autonomous systems.
    Asn,
    /// Internet service providers.
    Isp,
    /// Types of connection.
    ConnectionType,
    /// Addresses of anonymising services.
    AnonymousIp,
    /// Domains; no variable is read from it.
    Domain,
}

impl LocationDatabase {
    /// The editions that ingress-nginx accepts in `--maxmind-edition-ids`. The file of an edition
    /// has its name and ends with `.mmdb`.
    pub const EDITIONS: &[(&'static str, Self)] = &[
        ("GeoLite2-Country", Self::Country),
        ("GeoIP2-Country", Self::Country),
        ("GeoLite2-City", Self::City),
        ("GeoIP2-City", Self::City),
        ("GeoLite2-ASN", Self::Asn),
        ("GeoIP2-ASN", Self::Asn),
        ("GeoIP2-ISP", Self::Isp),
        ("GeoIP2-Connection-Type", Self::ConnectionType),
        ("GeoIP2-Anonymous-IP", Self::AnonymousIp),
        ("GeoIP2-Domain", Self::Domain),
    ];

    /// Returns the kind of an edition; `None` if there is no such edition.
    pub fn of_edition(edition: &str) -> Option<Self> {
        Self::EDITIONS.iter().find(|(name, _)| *name == edition).map(|(_, database)| *database)
    }

    /// Returns whether the database contains countries, for lists of countries.
    pub fn has_countries(self) -> bool {
        matches!(self, Self::Country | Self::City)
    }
}

/// A step on the path to a value in the record of a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LocationStep {
    /// The value with this key.
    Key(&'static str),
    /// The element at this index.
    Index(usize),
}

/// Where a variable's value is in the databases.
#[derive(Clone, Copy, Debug)]
pub struct LocationSource {
    /// The database.
    pub database: LocationDatabase,
    /// The path in its records.
    pub path: &'static [LocationStep],
    /// The value for clients without one; empty for none.
    pub default: &'static str,
}

macro_rules! step {
    ($index:literal index) => {
        LocationStep::Index($index)
    };
    ($key:ident) => {
        LocationStep::Key(stringify!($key))
    };
}

macro_rules! locations {
    ($($name:ident: $text:literal = $($database:ident [$($key:ident $($index:literal)?),+] $(or $default:literal)?)|+, $doc:literal;)*) => {
        /// A `$geoip2_*` variable.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum LocationVariable {
            $(#[doc = $doc] $name,)*
        }

        impl LocationVariable {
            /// All variables, with their names without `$` and their meanings.
            pub const ALL: &[(Self, &'static str, &'static str)] = &[$((Self::$name, $text, $doc)),*];

            /// Returns where the value is; of several places, the first whose database is in use
            /// counts.
            pub fn sources(self) -> &'static [LocationSource] {
                match self {
                    $(Self::$name => &[$(LocationSource {
                        database: LocationDatabase::$database,
                        path: &[$(step!($key), $(step!($index index),)?)+],
                        default: concat!($($default)?),
                    }),+],)*
                }
            }
        }
    };
}

// The names and paths are those of ingress-nginx's template.
locations! {
    Asn: "geoip2_asn" = Asn [autonomous_system_number] | Isp [autonomous_system_number] or "0", "The number of the autonomous system.";
    City: "geoip2_city" = City [city, names, en], "The city, in English.";
    CityContinentCode: "geoip2_city_continent_code" = City [continent, code], "The continent, from the database of cities.";
    CityContinentName: "geoip2_city_continent_name" = City [continent, names, en], "Its name.";
    CityCountryCode: "geoip2_city_country_code" = City [country, iso_code], "The country (ISO 3166-1), from the database of cities.";
    CityCountryId: "geoip2_city_country_geoname_id" = City [country, geoname_id], "Its number in GeoNames.";
    CityCountryName: "geoip2_city_country_name" = City [country, names, en], "Its name.";
    CityId: "geoip2_city_geoname_id" = City [city, geoname_id], "The number of the city in GeoNames.";
    ConnectionType: "geoip2_connection_type" = ConnectionType [connection_type], "The type of connection, such as `Cellular`.";
    ContinentCode: "geoip2_continent_code" = Country [continent, code], "The continent.";
    ContinentId: "geoip2_continent_geoname_id" = Country [continent, geoname_id], "Its number in GeoNames.";
    ContinentName: "geoip2_continent_name" = Country [continent, names, en], "Its name.";
    CountryCode: "geoip2_country_code" = Country [country, iso_code], "The country (ISO 3166-1).";
    CountryId: "geoip2_country_geoname_id" = Country [country, geoname_id], "Its number in GeoNames.";
    CountryName: "geoip2_country_name" = Country [country, names, en], "Its name.";
    DmaCode: "geoip2_dma_code" = City [location, metro_code], "The metro code, in the United States.";
    IsAnon: "geoip2_is_anon" = AnonymousIp [is_anonymous], "1 for an anonymising service.";
    IsAnonymous: "geoip2_is_anonymous" = AnonymousIp [is_anonymous] or "0", "1 for an anonymising service, otherwise 0.";
    IsAnonymousVpn: "geoip2_is_anonymous_vpn" = AnonymousIp [is_anonymous_vpn] or "0", "1 for a VPN, otherwise 0.";
    IsHosting: "geoip2_is_hosting_provider" = AnonymousIp [is_hosting_provider] or "0", "1 for a hosting provider, otherwise 0.";
    IsPublicProxy: "geoip2_is_public_proxy" = AnonymousIp [is_public_proxy] or "0", "1 for a public proxy, otherwise 0.";
    IsTorExit: "geoip2_is_tor_exit_node" = AnonymousIp [is_tor_exit_node] or "0", "1 for an exit node of Tor, otherwise 0.";
    Isp: "geoip2_isp" = Isp [isp], "The Internet service provider.";
    IspOrganisation: "geoip2_isp_org" = Isp [organization], "The organisation that the address is assigned to.";
    Latitude: "geoip2_latitude" = City [location, latitude], "The latitude, with five decimals.";
    Longitude: "geoip2_longitude" = City [location, longitude], "The longitude, with five decimals.";
    Organisation: "geoip2_org" = Asn [autonomous_system_organization], "The organisation of the autonomous system.";
    PostalCode: "geoip2_postal_code" = City [postal, code], "The postal code.";
    RegionCode: "geoip2_region_code" = City [subdivisions 0, iso_code], "The first subdivision of the country (ISO 3166-2).";
    RegionId: "geoip2_region_geoname_id" = City [subdivisions 0, geoname_id], "Its number in GeoNames.";
    RegionName: "geoip2_region_name" = City [subdivisions 0, names, en], "Its name.";
    SubregionCode: "geoip2_subregion_code" = City [subdivisions 1, iso_code], "The second subdivision of the country (ISO 3166-2).";
    SubregionId: "geoip2_subregion_geoname_id" = City [subdivisions 1, geoname_id], "Its number in GeoNames.";
    SubregionName: "geoip2_subregion_name" = City [subdivisions 1, names, en], "Its name.";
    TimeZone: "geoip2_time_zone" = City [location, time_zone], "The time zone, such as `Europe/Berlin`.";
}

impl LocationVariable {
    /// Returns the variable `name`, in lower case and without `$`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known, _)| *known == name).map(|(variable, ..)| *variable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_have_the_places_of_the_template() {
        let sources = LocationVariable::named("geoip2_subregion_name").unwrap().sources();
        let path = [LocationStep::Key("subdivisions"), LocationStep::Index(1), LocationStep::Key("names")];
        assert_eq!(sources[0].path[..3], path);
        let asn = LocationVariable::Asn.sources();
        assert_eq!((asn[0].default, asn[1].default), ("", "0"));
        assert_eq!(LocationVariable::named("geoip2_nothing"), None);
    }

    #[test]
    fn every_database_of_a_variable_has_an_edition() {
        for (variable, name, _) in LocationVariable::ALL {
            assert!(name.starts_with("geoip2_"));
            for source in variable.sources() {
                assert!(LocationDatabase::EDITIONS.iter().any(|(_, database)| *database == source.database));
            }
        }
        assert_eq!(LocationDatabase::of_edition("GeoLite2-City"), Some(LocationDatabase::City));
        assert_eq!(LocationDatabase::of_edition("GeoLite3"), None);
    }
}
