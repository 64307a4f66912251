//! The JSON form of a problem, for `sluice check -o json`, `sluice problems -o json` and the admin
//! listener.

use serde::Serialize;

use super::Problem;

/// The JSON form of a problem. Fields are only ever added.
#[derive(Debug, Serialize)]
pub struct ProblemView<'a> {
    object: ObjectView<'a>,
    uid: Option<String>,
    field: &'a str,
    severity: &'static str,
    code: &'static str,
    class: &'static str,
    message: &'a str,
    remedy: &'a str,
}

#[derive(Debug, Serialize)]
struct ObjectView<'a> {
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
}

impl Problem {
    /// Returns the JSON form.
    pub fn view(&self) -> ProblemView<'_> {
        let object = &self.object;
        ProblemView {
            object: ObjectView {
                kind: &object.kind,
                namespace: &object.name.namespace,
                name: &object.name.name,
            },
            uid: self.uid.as_ref().map(ToString::to_string),
            field: &self.field,
            severity: self.severity.as_str(),
            code: self.code.as_str(),
            class: self.code.class().as_str(),
            message: &self.message,
            remedy: &self.remedy,
        }
    }
}
