//! A ConfigMap with one key for each FastCGI parameter.

use std::sync::Arc;

use sluice_config::{DOCUMENT_ROOT, FastCgiParams, Moment, Template, TemplatePiece, Variable};

use super::Bad;
use crate::store::ConfigMap;
use crate::translate::template;

/// The parameters of one rule. One bad parameter makes the whole unusable: without it, another
/// script may run.
pub(super) fn read(config_map: &ConfigMap) -> Result<FastCgiParams, Bad> {
    let params = config_map.data.iter().map(|(name, text)| {
        check(name, text)?;
        Ok((Arc::from(&**name), parse(name, text)?))
    });
    Ok(FastCgiParams { params: params.collect::<Result<_, _>>()? })
}

/// Checks names and values as ingress-nginx does (`annotations/fastcgi`).
fn check(name: &str, text: &str) -> Result<(), Bad> {
    let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_name) {
        return Err(Bad {
            reason: format!("has the key {name:?}, which is not the name of a parameter"),
            remedy: "use letters, digits, dots, hyphens and underscores",
        });
    }
    if !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_${}/.".contains(&byte)) {
        return Err(Bad {
            reason: format!("has a value in its key {name:?} with a character that is not allowed"),
            remedy: "use letters, digits, dots, hyphens, underscores, slashes and variables, as for ingress-nginx",
        });
    }
    Ok(())
}

fn parse(name: &str, text: &str) -> Result<Template, Bad> {
    const ROOT: &str = "document_root";
    let parsed = template::parse_with(text, |variable| match variable {
        // Those of the request to the endpoint. PATH_INFO is empty without fastcgi_split_path_info,
        // which no annotation sets.
        "args"
        | "query_string"
        | "is_args"
        | "remote_user"
        | "fastcgi_script_name"
        | "fastcgi_path_info"
        | ROOT => Ok(Variable::Group(variable.into())),
        other => match template::variable(other, Moment::Request)? {
            Variable::Unserved => Err(format!("has ${other}, which is not served")),
            variable => Ok(variable),
        },
    });
    let Template { pieces } = parsed.map_err(|reason| Bad {
        reason: format!("has a value in its key {name:?} that {reason}"),
        remedy: "use a variable that is served (docs/variables.md), or write the value without one",
    })?;
    let constant = |piece| match piece {
        TemplatePiece::Variable(Variable::Group(name)) if *name == *ROOT => {
            TemplatePiece::Text(DOCUMENT_ROOT.into())
        }
        other => other,
    };
    Ok(Template { pieces: pieces.into_iter().map(constant).collect() })
}

#[cfg(test)]
mod tests {
    use sluice_config::NamespacedName;

    use super::*;
    use crate::store::DataFields;

    fn params(data: &[(&str, &str)]) -> Result<FastCgiParams, Bad> {
        let data = data.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        read(&ConfigMap {
            name: NamespacedName::new("n", "params"),
            identity: Default::default(),
            fields: DataFields::All,
            data,
        })
    }

    #[test]
    fn parameters_have_constants_and_variables() {
        let read = params(&[
            ("PATH_INFO", "$fastcgi_path_info"),
            ("SCRIPT_FILENAME", "${document_root}/app$fastcgi_script_name"),
        ]);
        let pieces = vec![
            TemplatePiece::Text(DOCUMENT_ROOT.into()),
            TemplatePiece::Text("/app".into()),
            TemplatePiece::Variable(Variable::Group("fastcgi_script_name".into())),
        ];
        let unset =
            Template { pieces: vec![TemplatePiece::Variable(Variable::Group("fastcgi_path_info".into()))] };
        assert_eq!(
            read.unwrap().params,
            [("PATH_INFO".into(), unset), ("SCRIPT_FILENAME".into(), Template { pieces })]
        );
    }

    #[test]
    fn a_bad_parameter_is_named_without_its_value() {
        for (name, value, part) in [
            ("a b", "x", "\"a b\""),
            ("A", "secret value", "\"A\""),
            ("A", "$nothing", "$nothing"),
            ("A", "$realpath_root/secret", "$realpath_root"),
            ("A", "${host", "${"),
        ] {
            let bad = params(&[(name, value)]).unwrap_err();
            assert!(bad.reason.contains(part) && !bad.reason.contains("secret"), "{}", bad.reason);
        }
    }
}
