//! Requests that were answered with 500 because a regular expression reached its step limit.

use sluice_config::text::one_line;
use sluice_config::{Code, ObjectRef, Problem, Severity};

/// Such a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StepLimitReport {
    /// The object of its rule, if one took it.
    pub(crate) object: Option<ObjectRef>,
    /// Its host.
    pub(crate) host: String,
}

impl StepLimitReport {
    /// Returns the problem for operators, after so many requests.
    pub(crate) fn problem(self, requests: u64) -> Problem {
        let Self { object, host } = self;
        Problem {
            object: object.unwrap_or_else(|| ObjectRef::new("Host", "", &one_line(&host, 255))),
            field: "expression".into(),
            uid: None,
            severity: Severity::Error,
            code: Code::ExpressionLimit,
            message: format!(
                "a regular expression with look-around, back-references or atomic groups reached its step limit, and the \
                 request got 500 ({requests} or more requests so far)"
            ),
            remedy: "write the expression without nested repetition, or without the syntax that needs backtracking".into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_problem_names_the_object_and_the_number_of_requests() {
        let report = StepLimitReport {
            object: Some(ObjectRef::new("Ingress", "shop", "web")),
            host: "shop.example".to_owned(),
        };
        let problem = report.problem(1).to_string();
        assert!(problem.contains("Ingress shop/web") && problem.contains("1 or more"), "{problem}");
    }
}
