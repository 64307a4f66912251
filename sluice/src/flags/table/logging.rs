//! The flags of klog, which manifests for ingress-nginx contain. Only the verbosity has an effect;
//! the other flags concern log files, which Sluice does not write.

use super::super::value::Destination::{Nowhere, To};
use super::super::value::Value::{Bool, Int, Text};
use super::{Flag, flag};

/// Reason why the flags about log files have no effect.
const STDERR: &str = "the program log always goes to standard error; redirect that, and remove this flag";
/// Reason why the flags about the format of log lines have no effect.
const SHAPE: &str = "log lines have one fixed form; remove this flag";
/// Reason why the flags about single source files have no effect.
const MODULES: &str = "use the environment variable RUST_LOG for levels by module";

pub(super) const FLAGS: &[Flag] = &[
    flag("v", Int(To(|f| &mut f.verbosity)), "0", "Verbosity: 3 and 4 debug, 5 and more trace"),
    flag("logtostderr", Bool(Nowhere(STDERR)), "true", "Log to standard error"),
    flag("alsologtostderr", Bool(Nowhere(STDERR)), "false", "Log to standard error as well as to files"),
    flag("stderrthreshold", Text(Nowhere(STDERR)), "2", "Severity that goes to standard error"),
    flag(
        "alsologtostderrthreshold",
        Text(Nowhere(STDERR)),
        "0",
        "Severity that also goes to standard error, with --alsologtostderr",
    ),
    flag(
        "legacy_stderr_threshold_behavior",
        Bool(Nowhere(STDERR)),
        "true",
        "Ignore --stderrthreshold with --logtostderr",
    ),
    flag("log_dir", Text(Nowhere(STDERR)), "", "Folder for log files"),
    flag("log_file", Text(Nowhere(STDERR)), "", "Log file"),
    flag("log_file_max_size", Int(Nowhere(STDERR)), "1800", "Largest log file in megabytes"),
    flag("one_output", Bool(Nowhere(STDERR)), "false", "Log each line to its own severity only"),
    flag("vmodule", Text(Nowhere(MODULES)), "", "Verbosity by source file"),
    flag("log_backtrace_at", Text(Nowhere(MODULES)), ":0", "Log a stack trace at this line"),
    flag("add_dir_header", Bool(Nowhere(SHAPE)), "false", "Folder of the source file in each line"),
    flag("skip_headers", Bool(Nowhere(SHAPE)), "false", "No header in front of lines"),
    flag("skip_log_headers", Bool(Nowhere(SHAPE)), "false", "No header at the top of log files"),
];
