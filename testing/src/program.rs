//! Paths of the programs of this workspace: tests and load programs start those built with them.

use std::path::PathBuf;
use std::{env, io};

/// Returns the path of a program of this workspace: `$SLUICE_BIN` for `sluice`, else the program in
/// the folder of the running program or, for tests, in its parent.
///
/// # Errors
/// The program is not built.
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
