//! The parameters for FastCGI endpoints from a ConfigMap (`fastcgi-params-configmap`).

use std::sync::Arc;

use super::error::PolicyError;
use super::template::{Template, TemplateContext};

/// Compiled parameters, sorted by name.
#[derive(Debug, Default)]
pub struct FastCgiParams(Box<[(Box<[u8]>, Template)]>);

/// Values of a request that only FastCGI endpoints receive.
#[derive(Clone, Copy, Debug)]
pub struct FastCgiRequest<'f> {
    /// `$fastcgi_script_name`.
    pub script_name: &'f [u8],
    /// The query for the endpoint.
    pub query: Option<&'f str>,
    /// The user that the request's credentials name. A password that the gateway checked is no
    /// longer in the head.
    pub user: &'f [u8],
}

impl FastCgiRequest<'_> {
    /// The value of a variable that the endpoint's request has instead of the client's. In
    /// templates of parameters these variables are groups.
    fn value(&self, name: &str) -> &[u8] {
        match name {
            "args" | "query_string" => self.query.unwrap_or_default().as_bytes(),
            "fastcgi_script_name" => self.script_name,
            "is_args" if self.query.is_some_and(|query| !query.is_empty()) => b"?",
            "remote_user" => self.user,
            _ => b"",
        }
    }
}

impl FastCgiParams {
    /// Compiles parameters.
    ///
    /// # Errors
    /// The name of a field in a variable is invalid.
    pub fn compile(params: &sluice_config::FastCgiParams) -> Result<Self, PolicyError> {
        let compile = |(name, template): &(Arc<str>, sluice_config::Template)| {
            Ok((name.as_bytes().into(), Template::compile(template)?))
        };
        params.params.iter().map(compile).collect::<Result<_, _>>().map(Self)
    }

    /// Returns whether there is a parameter of this name.
    pub fn has(&self, name: &[u8]) -> bool {
        self.0.binary_search_by(|(known, _)| (**known).cmp(name)).is_ok()
    }

    /// Returns names and values for a request. A field that is set to an empty value is omitted, as
    /// in nginx.
    pub fn fill<'p>(
        &'p self,
        context: &'p TemplateContext<'_>,
        request: &'p FastCgiRequest<'_>,
    ) -> impl Iterator<Item = (&'p [u8], Vec<u8>)> {
        let filled = self.0.iter().map(|(name, template)| {
            (&**name, template.resolve(context).with_groups(|group| request.value(group)))
        });
        filled.filter(|(name, value)| !value.is_empty() || !name.starts_with(b"HTTP_"))
    }
}

#[cfg(test)]
mod tests {
    use sluice_config::{TemplatePiece, Variable};

    use super::*;
    use crate::policy::template::tests::with_context;

    fn group(name: &str) -> TemplatePiece {
        TemplatePiece::Variable(Variable::Group(name.into()))
    }

    fn params(params: &[(&str, TemplatePiece)]) -> FastCgiParams {
        let template = |piece: &TemplatePiece| sluice_config::Template { pieces: vec![piece.clone()] };
        let params = params.iter().map(|(name, piece)| ((*name).into(), template(piece))).collect();
        FastCgiParams::compile(&sluice_config::FastCgiParams { params }).unwrap()
    }

    #[test]
    fn a_lone_question_mark_is_no_query_for_variables() {
        let params = params(&[("IS_ARGS", group("is_args"))]);
        for (query, value) in [(None, ""), (Some(""), ""), (Some("a"), "?")] {
            let request = FastCgiRequest { script_name: b"/", query, user: b"" };
            with_context(|context| {
                let filled: Vec<_> = params.fill(context, &request).collect();
                assert_eq!(filled, [(&b"IS_ARGS"[..], value.as_bytes().to_vec())], "{query:?}");
            });
        }
    }

    #[test]
    fn values_are_filled_in_and_an_empty_field_is_omitted() {
        let params = params(&[
            ("EMPTY", group("fastcgi_path_info")),
            ("HTTP_X_EMPTY", group("fastcgi_path_info")),
            ("SCRIPT", group("fastcgi_script_name")),
            ("USER", group("remote_user")),
        ]);
        assert!(params.has(b"HTTP_X_EMPTY") && !params.has(b"HTTP_X_E"));
        let request = FastCgiRequest { script_name: b"/a.php", query: None, user: b"eve" };
        with_context(|context| {
            let filled: Vec<_> = params.fill(context, &request).collect();
            let expected = [("EMPTY", ""), ("SCRIPT", "/a.php"), ("USER", "eve")];
            assert_eq!(filled, expected.map(|(name, value)| (name.as_bytes(), value.as_bytes().to_vec())));
        });
    }
}
