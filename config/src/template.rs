//! Templates: text with request variables in nginx's syntax, such as
//! `https://login.example/start?rd=$escaped_request_uri`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::log_format::LogVariable;

/// Text with variables, parsed once by translation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Template {
    /// Pieces, in order.
    pub pieces: Vec<Piece>,
}

impl Template {
    /// Creates a template without variables.
    pub fn plain(text: &str) -> Self {
        let pieces = if text.is_empty() { Vec::new() } else { vec![Piece::Text(text.into())] };
        Self { pieces }
    }
}

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Piece {
    /// Literal text.
    Text(Arc<str>),
    /// A variable.
    Variable(Variable),
}

/// A variable of a request, with nginx's name.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Variable {
    /// `$host`: the host in lower case, without its port.
    Host,
    /// `$http_host`: host and port as the client sent them.
    HttpHost,
    /// `$best_http_host`: `$http_host`, or `X-Forwarded-Host` from a trusted proxy.
    BestHttpHost,
    /// `$remote_user`: the user name in the request's credentials.
    RemoteUser,
    /// `$request`: the request line.
    RequestLine,
    /// A variable of the access log whose value is known when the request begins.
    Logged(LogVariable),
    /// A variable of nginx that has no value before the response, or none in Sluice. Its value is
    /// empty.
    Unset,
    /// `$scheme`: the scheme of the connection.
    Scheme,
    /// `$pass_access_scheme`: the scheme that a trusted proxy reports, or that of the connection.
    AccessScheme,
    /// `$request_uri`: path and query as the client sent them.
    RequestUri,
    /// `$escaped_request_uri`: `$request_uri`, escaped for use as a query parameter value.
    EscapedRequestUri,
    /// `$uri`, `$document_uri`: the path, normalised.
    Uri,
    /// `$args`, `$query_string`: the query.
    Args,
    /// `$is_args`: `?` if the request has a query, else empty.
    IsArgs,
    /// `$request_method`.
    Method,
    /// `$server_protocol`.
    Protocol,
    /// `$https`: `on` if the connection has TLS, else empty.
    Https,
    /// `$msec`: the time in seconds since 1970, with milliseconds.
    Seconds,
    /// `$proxy_add_x_forwarded_for`: the client's `X-Forwarded-For` with the client's address
    /// appended.
    ForwardedFor,
    /// `$remote_addr`, `$the_real_ip`: the client's address.
    ClientAddress,
    /// `$server_port`, `$pass_server_port`: the port that the client connected to.
    ServerPort,
    /// `$req_id`, `$request_id`.
    RequestId,
    /// `$namespace`: the namespace of the Ingress.
    Namespace,
    /// `$ingress_name`.
    IngressName,
    /// `$service_name`.
    ServiceName,
    /// `$service_port`.
    ServicePort,
    /// `$location_path`: the path of the rule.
    LocationPath,
    /// `$http_NAME`: a field of the request.
    Field(Arc<str>),
    /// `$cookie_NAME`.
    Cookie(Arc<str>),
    /// `$arg_NAME`: a parameter of the query.
    Argument(Arc<str>),
    /// A variable that a `set` of a snippet assigns, in lower case.
    Assigned(Arc<str>),
    /// A field of the response of the authorisation service, by name in lower case
    /// (`auth_request_set`).
    Authorised(Arc<str>),
    /// `$1` to `$9` and `$NAME`: a group of the replaced expression, or of the last expression of a
    /// snippet that matched.
    Group(Arc<str>),
}
