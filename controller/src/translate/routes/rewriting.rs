//! Interpretation of paths as regular expressions, and rewriting of paths.

mod template;

use std::sync::Arc;

use sluice_config::Rewrite;

use crate::store::{PathType, RoutePath};
use crate::translate::expression::Expressions;

pub(crate) use template::{GroupText, RewriteError, RewriteTarget};

/// Interpretation and rewriting of the paths of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rewriting {
    /// `use-regex`.
    pub(crate) use_regex: bool,
    /// `rewrite-target`: its text and its parsed form.
    pub(crate) target: Option<(Arc<str>, RewriteTarget)>,
    /// `x-forwarded-prefix`.
    pub(crate) forwarded_prefix: Option<GroupText>,
    /// `app-root`.
    pub(crate) app_root: Option<Arc<str>>,
}

impl Rewriting {
    /// Returns whether this path turns all paths of its host into expressions.
    pub(crate) fn makes_expressions(&self, path: &RoutePath) -> bool {
        self.is_expression(&path.path) || self.rewrites_below(path)
    }

    /// Returns whether this path was meant as an expression.
    pub(crate) fn is_expression(&self, path: &str) -> bool {
        self.use_regex || self.is_rewritten(path)
    }

    /// Returns whether only requests below this path are rewritten. ingress-nginx takes a Prefix
    /// path that equals its target literally: it has a location for the path, and one for the path
    /// with a slash. The latter differs from the target. Paths of type ImplementationSpecific are
    /// Prefix paths to it.
    pub(crate) fn rewrites_below(&self, path: &RoutePath) -> bool {
        let RoutePath { path, path_type, .. } = path;
        *path_type != PathType::Exact
            && !path.ends_with('/')
            && !self.use_regex
            && self.target.as_ref().is_some_and(|(text, _)| text == path)
    }

    /// A target that equals the path has no effect on requests for the path.
    fn is_rewritten(&self, path: &str) -> bool {
        self.target.as_ref().is_some_and(|(text, _)| **text != *path)
    }

    /// Returns the rewrite of a path, and the first group number of the target that the path lacks.
    ///
    /// # Errors
    /// The path is an invalid expression, or lacks a named group of the target.
    pub(crate) fn for_path(
        &self,
        path: &str,
        expressions: &Expressions,
    ) -> Result<Option<(Rewrite, Option<usize>)>, RewriteError> {
        match &self.target {
            Some((_, target)) if self.is_rewritten(path) => {
                target.resolve(path, self.forwarded_prefix.as_ref(), expressions).map(Some)
            }
            _ => Ok(None),
        }
    }
}
