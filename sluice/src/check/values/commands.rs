//! Commands of hooks and probes that the image of Sluice cannot run, because it has no shell. The
//! chart refuses them in `templates/_commands.tpl`.

use std::path::Path;

use serde_json::Value;
use sluice_config::{Problem, Severity};

use super::{ChartValues, scalar};

/// Programs of the image.
const PROGRAMS: [&str; 2] = ["/sluice", "/wait-shutdown"];

const PRE_STOP: &str = "controller.lifecycle.preStop";
const HANDLERS: [&str; 5] = [
    PRE_STOP,
    "controller.lifecycle.postStart",
    "controller.livenessProbe",
    "controller.readinessProbe",
    "controller.startupProbe",
];

/// Returns a problem for each command whose program is neither in the image nor mounted.
pub(super) fn problems(values: &ChartValues) -> Vec<Problem> {
    let mounts = values.get("controller.extraVolumeMounts").and_then(Value::as_array);
    let mounts: Vec<&str> =
        mounts.into_iter().flatten().filter_map(|mount| mount["mountPath"].as_str()).collect();
    let is_there = |program: &Path| {
        PROGRAMS.iter().any(|own| program == Path::new(own))
            || mounts.iter().any(|mount| program.starts_with(mount))
    };
    let problem = |handler: &str| {
        let field = format!("{handler}.exec.command");
        let program = scalar(values.get(&field)?.get(0)?);
        let remedy = match handler {
            PRE_STOP => {
                "for a delay before the Pod ends, set controller.shutdownGracePeriod, or \
                 lifecycle.preStop.sleep, and remove the command before you install Sluice with this file"
            }
            _ => {
                "mount the program with controller.extraVolumeMounts, or use a handler without a command, \
                 such as httpGet, before you install Sluice with this file"
            }
        };
        let message =
            format!("the chart of Sluice refuses it: its image has no program {program}, and no shell");
        (!is_there(Path::new(&program))).then(|| values.problem(&field, Severity::Error, message, remedy))
    };
    HANDLERS.into_iter().filter_map(problem).collect()
}
