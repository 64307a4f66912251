//! Addresses.

use std::net::IpAddr;

use super::Type;
use super::text::list_of;

/// A comma-separated list of IP addresses, of version 6 in brackets or not.
pub fn addresses() -> Type<Vec<IpAddr>> {
    list_of("comma-separated list of IP addresses", |item| {
        let bare = item.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(item);
        bare.parse().map_err(|_| format!("has {item:?}, which is no IP address"))
    })
}
