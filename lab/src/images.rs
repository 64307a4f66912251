//! The programs of image names. There is no registry and nothing is pulled: an image is looked up
//! in one table by the last part of its name, without tag and digest.

use std::env;
use std::path::PathBuf;

use anyhow::{Result, bail};
use sluice_testing::program;

use crate::layout::LabSettings;
use crate::programs::{Unit, find};

/// The content of an image.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    /// The image's short name. Its program is at `/image/NAME` and `/NAME` in the container.
    pub name: String,
    /// The program on this machine. `None` for an image with only the machine's `/usr`.
    pub program: Option<PathBuf>,
    /// The command of Pods that specify none.
    pub entrypoint: Vec<String>,
}

/// The source of an image's program.
enum Origin {
    /// A program of this workspace, beside the running one.
    Workspace(&'static str),
    /// The lab's own program, with a subcommand.
    Lab(&'static str),
    /// A pinned Go program.
    Built(Unit, &'static str),
    /// Only the machine's `/usr`.
    Machine,
}

const TABLE: [(&str, Origin); 7] = [
    ("sluice", Origin::Workspace("sluice")),
    ("echo", Origin::Lab("echo")),
    ("echo-basic", Origin::Built(Unit::EchoBasic, "echo-basic")),
    ("k6", Origin::Built(Unit::K6, "k6")),
    ("helm", Origin::Built(Unit::Helm, "helm")),
    ("acmesolver", Origin::Built(Unit::CertManager, "acmesolver")),
    ("shell", Origin::Machine),
];

/// Returns the image that a Pod's `image` refers to.
///
/// # Errors
/// Returns an error if no entry has this name, or its program is not built.
pub fn resolve(image: &str, settings: &LabSettings) -> Result<Image> {
    let name = short_name(image);
    let own = |path: PathBuf| Image {
        name: name.to_owned(),
        entrypoint: vec![format!("/image/{name}")],
        program: Some(path),
    };
    if let Some((_, path)) = settings.images.iter().find(|(known, _)| known == name) {
        return Ok(own(path.clone()));
    }
    let Some((_, origin)) = TABLE.iter().find(|(known, _)| *known == name) else {
        let known: Vec<&str> = TABLE.iter().map(|(known, _)| *known).collect();
        bail!(
            "the lab has no program for image {image:?}: there are {} and the programs of `up --image NAME=PROGRAM`",
            known.join(", ")
        );
    };
    match origin {
        Origin::Workspace(name) => Ok(own(program::find(name)?)),
        Origin::Built(unit, program) => Ok(own(find(*unit, program)?)),
        Origin::Lab(subcommand) => {
            let mut image = own(lab_program()?);
            image.entrypoint.push((*subcommand).to_owned());
            Ok(image)
        }
        Origin::Machine => {
            Ok(Image { name: name.to_owned(), program: None, entrypoint: vec!["/bin/sh".to_owned()] })
        }
    }
}

/// Returns the path of the program `sluice-lab`: this process, or the one built beside the running
/// test.
///
/// # Errors
/// Returns an error if it is not built.
pub fn lab_program() -> Result<PathBuf> {
    let own = env::current_exe()?;
    if own.file_name().is_some_and(|name| name == "sluice-lab") {
        Ok(own)
    } else {
        Ok(program::find("sluice-lab")?)
    }
}

/// Returns the last part of a name: `echo` for `registry.example/team/echo:v1@sha256:...`.
fn short_name(image: &str) -> &str {
    let image = image.split_once('@').map_or(image, |(name, _)| name);
    let last = image.rsplit_once('/').map_or(image, |(_, last)| last);
    last.split_once(':').map_or(last, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> LabSettings {
        LabSettings { nodes: 1, dual_stack: false, images: vec![("hook".into(), "/opt/hook".into())] }
    }

    #[test]
    fn an_image_is_known_by_the_last_part_of_its_name() {
        for image in
            ["echo", "echo:v1", "gcr.io/x/echo:v1", "localhost:5000/x/echo@sha256:00", "echo:v1@sha256:00"]
        {
            assert_eq!(short_name(image), "echo", "{image}");
        }
    }

    #[test]
    fn images_of_up_take_precedence() {
        let image = resolve("registry.example/hook:v1", &settings()).unwrap();
        assert_eq!(image.program, Some("/opt/hook".into()));
        assert_eq!(image.entrypoint, ["/image/hook"]);
    }

    #[test]
    fn an_unknown_image_names_the_known_ones() {
        let error = resolve("nginx:1.29", &settings()).unwrap_err().to_string();
        assert!(error.contains("nginx:1.29") && error.contains("echo-basic"), "{error}");
    }
}
