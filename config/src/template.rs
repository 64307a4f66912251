//! Texts with variables of the request in them, as nginx writes them: `https://login.example/start?rd=$escaped_request_uri`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::log_format::LogVariable;

/// A text with variables. Read once, by translation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Template {
    /// In order.
    pub pieces: Vec<Piece>,
}

impl Template {
    /// A text without variables.
    pub fn plain(text: &str) -> Self {
        let pieces = if text.is_empty() { Vec::new() } else { vec![Piece::Text(text.into())] };
        Self { pieces }
    }
}

/// A piece of a template.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Piece {
    /// Stands as it is.
    Text(Arc<str>),
    /// Is filled in.
    Variable(Variable),
}

/// What a request says, by nginx's names.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Variable {
    /// `$host`: the host in lower case, without its port.
    Host,
    /// `$http_host`: host and port as the client wrote them.
    HttpHost,
    /// `$best_http_host`: the same, or what a trusted proxy says in `X-Forwarded-Host`.
    BestHttpHost,
    /// `$remote_user`: the user of the request's credentials.
    RemoteUser,
    /// `$request`: the request line.
    RequestLine,
    /// A variable that the access log has as well and that is known when the request begins.
    Logged(LogVariable),
    /// A variable of nginx that has no value before the response, or none in Sluice: it is empty.
    Unset,
    /// `$scheme`: that of the connection.
    Scheme,
    /// `$pass_access_scheme`: what a trusted proxy in front says, else that of the connection.
    AccessScheme,
    /// `$request_uri`: path and query as the client sent them.
    RequestUri,
    /// `$escaped_request_uri`: the same, escaped so that it can be the value of a query parameter.
    EscapedRequestUri,
    /// `$uri`, `$document_uri`: the path, normalised.
    Uri,
    /// `$args`, `$query_string`: the query.
    Args,
    /// `$is_args`: a question mark where there is a query.
    IsArgs,
    /// `$request_method`.
    Method,
    /// `$server_protocol`.
    Protocol,
    /// `$https`: `on` where the connection has TLS, else empty.
    Https,
    /// `$msec`: the time in seconds since 1970, with milliseconds.
    Seconds,
    /// `$proxy_add_x_forwarded_for`: the client's `X-Forwarded-For` with the client's address behind it.
    ForwardedFor,
    /// `$remote_addr`, `$the_real_ip`: the client's address.
    ClientAddress,
    /// `$server_port`, `$pass_server_port`: the port that the client asked for.
    ServerPort,
    /// `$req_id`, `$request_id`.
    RequestId,
    /// `$namespace`: that of the Ingress.
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
    /// `$1` to `$9` and `$NAME`: a group of the expression that is replaced, where one is.
    Group(Arc<str>),
}
