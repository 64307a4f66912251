//! Where the programs of this workspace are: what a test or a load program starts is what was built with it.

use std::path::PathBuf;
use std::{env, io};

/// A program of this workspace: `$SLUICE_BIN` for `sluice`, else what is in the folder of the running program, or, for a
/// test, in the folder above.
///
/// # Errors
/// It is not built.
pub fn find(name: &str) -> io::Result<PathBuf> {
    if name == "sluice"
        && let Some(path) = env::var_os("SLUICE_BIN")
    {
        return Ok(path.into());
    }
    let own = env::current_exe()?;
    let found = own.ancestors().skip(1).take(2).map(|folder| folder.join(name)).find(|path| path.is_file());
    found.ok_or_else(|| {
        let profile = own.display();
        io::Error::other(format!(
            "{name} is not built: run `cargo build -p {name}` with the profile of {profile}"
        ))
    })
}
