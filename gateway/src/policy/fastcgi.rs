//! Settings for FastCGI endpoints: `fastcgi-index`, `fastcgi-params-configmap` and
//! `sluice.dev/fastcgi-keep-conn`.

use std::borrow::Cow;
use std::sync::Arc;

use super::error::PolicyError;
use super::fastcgi_params::FastCgiParams;
use super::resources::{ResourceSlot, Resources};

/// Compiled settings of a rule.
#[derive(Debug)]
pub struct FastCgi {
    index: Option<Arc<str>>,
    /// Parameters of the rule. The rule is closed while they are absent.
    pub params: Option<Arc<ResourceSlot<FastCgiParams>>>,
    /// Whether connections to endpoints are kept.
    pub keeps_connections: bool,
}

impl FastCgi {
    /// Compiles the policy.
    ///
    /// # Errors
    /// The key refers to a resource of another kind.
    pub fn compile(settings: &sluice_config::FastCgi, resources: &Resources) -> Result<Self, PolicyError> {
        let sluice_config::FastCgi { index, params, keeps_connections } = settings;
        let params = params.as_ref().map(|key| resources.fastcgi_params(key)).transpose()?;
        Ok(Self { index: index.clone(), params, keeps_connections: *keeps_connections })
    }

    /// Returns the script of a normalised path: with the index if it ends with a slash.
    pub fn script_name<'p>(&self, path: &'p [u8]) -> Cow<'p, [u8]> {
        match &self.index {
            Some(index) if path.ends_with(b"/") => Cow::Owned([path, index.as_bytes()].concat()),
            _ => Cow::Borrowed(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_completes_a_path_that_ends_with_a_slash() {
        let settings = |index: Option<&str>| sluice_config::FastCgi {
            index: index.map(Into::into),
            ..sluice_config::FastCgi::default()
        };
        let compile = |index| FastCgi::compile(&settings(index), &Resources::default()).unwrap();
        let (with, without) = (compile(Some("index.php")), compile(None));
        assert_eq!(&*with.script_name(b"/blog/"), b"/blog/index.php");
        assert_eq!(&*with.script_name(b"/blog/a.php"), b"/blog/a.php");
        assert_eq!(&*without.script_name(b"/blog/"), b"/blog/");
    }
}
