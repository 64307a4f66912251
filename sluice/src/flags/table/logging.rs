//! The flags of klog, which ingress-nginx's users have in their manifests. Verbosity counts; the rest decides
//! about log files that Sluice does not write.

use super::super::value::Destination::{Nowhere, To};
use super::super::value::Value::{Bool, Int, Text};
use super::{Flag, flag};

/// Why flags about log files do nothing.
const STDERR: &str = "the program log always goes to standard error; redirect that, and remove this flag";
/// Why flags about the shape of log lines do nothing.
const SHAPE: &str = "log lines have one fixed form; remove this flag";
/// Why flags about single source files do nothing.
const MODULES: &str = "use the environment variable RUST_LOG for levels by module";

pub(super) const FLAGS: &[Flag] = &[
    flag("v", Int(To(|f| &mut f.verbosity)), "0", "Verbosity: 3 and 4 debug, 5 and more trace"),
    flag("logtostderr", Bool(Nowhere(STDERR)), "true", "Log to standard error"),
    flag("alsologtostderr", Bool(Nowhere(STDERR)), "false", "Log to standard error as well as to files"),
    flag("stderrthreshold", Text(Nowhere(STDERR)), "2", "Severity that goes to standard error"),
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
