//! The limit of open files. Every connection needs a file descriptor, and the usual soft limit of
//! 1,024 is far too low.

use rustix::io::Result;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Enough for the default of `max-worker-connections` with one endpoint connection each.
const AMPLE: u64 = 2 * 16_384 + 128;

/// Logs a warning if the limit of open files restricts clients more than `max-worker-connections`
/// does.
pub(crate) fn advise() {
    if let Some(limit) = getrlimit(Resource::Nofile).current.filter(|limit| *limit < AMPLE) {
        tracing::warn!(
            limit,
            "few open files are allowed: clients get at most three quarters of them; raise the limit with \
             ulimit -n or in the container runtime"
        );
    }
}

/// Raises the soft limit of open files to the hard limit. Returns the new limit, `None` for no
/// limit.
///
/// # Errors
/// The system refuses the new limit; the old one remains in effect.
pub(crate) fn raise_open_files() -> Result<Option<u64>> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    }
    Ok(limit.maximum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_becomes_the_hard_one() {
        let maximum = raise_open_files().unwrap();
        assert_eq!(getrlimit(Resource::Nofile).current, maximum);
    }
}
