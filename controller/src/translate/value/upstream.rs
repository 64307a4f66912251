//! Values about endpoints that both annotations and ConfigMap keys have.

use sluice_config::Balance;

use super::{Type, one_of};

/// Values of `load-balance`. The last is Sluice's own, named as in nginx.
const BALANCES: &[(&str, Balance)] = &[
    ("round_robin", Balance::RoundRobin),
    ("ewma", Balance::Ewma),
    ("least_conn", Balance::LeastConnections),
];

/// Values of `proxy-http-version`, and whether each is HTTP/1.0.
const HTTP_VERSIONS: &[(&str, bool)] = &[("1.0", true), ("1.1", false)];

/// Description of `proxy-http-version`.
pub const HTTP_VERSION: &str = "HTTP version to endpoints. With 1.0 each connection carries one \
                                       request, request bodies without a length are buffered first, and \
                                       upgrades to other protocols are unavailable. Does not apply to GRPC \
                                       and GRPCS.";

/// How an endpoint is chosen.
pub fn balance() -> Type<Balance> {
    one_of(BALANCES)
}

/// Whether the HTTP version to endpoints is 1.0.
pub fn http_1_0() -> Type<bool> {
    one_of(HTTP_VERSIONS)
}
