//! Paths as regular expressions, and other paths for the endpoints.

mod template;

use std::sync::Arc;

use sluice_config::Rewrite;

use crate::translate::expression::Expressions;

pub(crate) use template::{GroupText, RewriteError, Target};

/// How the paths of an object are read, and what they become.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rewriting {
    /// `use-regex`.
    pub(crate) use_regex: bool,
    /// `rewrite-target`, as it was written and as it was read.
    pub(crate) target: Option<(Arc<str>, Target)>,
    /// `x-forwarded-prefix`.
    pub(crate) forwarded_prefix: Option<GroupText>,
    /// `app-root`.
    pub(crate) app_root: Option<Arc<str>>,
}

impl Rewriting {
    /// Whether this path makes all paths of its host expressions.
    pub(crate) fn makes_expressions(&self, path: &str) -> bool {
        self.use_regex || self.is_rewritten(path)
    }

    /// A target that is the path itself asks for nothing.
    fn is_rewritten(&self, path: &str) -> bool {
        self.target.as_ref().is_some_and(|(text, _)| **text != *path)
    }

    /// What a path becomes, and the first number of a group that the target has and the path has not.
    ///
    /// # Errors
    /// The path cannot be read, or has no group of a name that the target has.
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
