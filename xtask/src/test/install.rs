//! Installing what is missing, and only that.
//!
//! Python and Node packages go into folders under `target/tools`, so that they are gone with a
//! `cargo clean` and never meet the ones of the machine. Tests find the folder in `ORRERY_TOOLS`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::requirement::{Absent, Kind, Requirement};
use super::summary::NotRun;
use crate::{process, workspace};

/// Debian asks this program whether a service may be started after its package was installed.
const POLICY_FILE: &str = "/usr/sbin/policy-rc.d";

/// A requirement that is still missing after everything was tried.
pub struct Unmet {
    pub requirement: &'static Requirement,
    pub reason: String,
}

impl Unmet {
    pub fn not_run(&self) -> NotRun {
        let Requirement { name, why, absent, .. } = self.requirement;
        let what = match absent {
            Absent::Fails => format!("what needs {name} ({why})"),
            Absent::LeavesOut(filter) => format!("tests {filter}, which need {name} ({why})"),
        };
        NotRun { what, reason: self.reason.clone() }
    }
}

/// Leaves the tests out whose tools are missing.
pub fn filter(unmet: &[Unmet]) -> Option<String> {
    let left_out = unmet.iter().filter_map(|unmet| match unmet.requirement.absent {
        Absent::LeavesOut(filter) => Some(format!("not ({filter})")),
        Absent::Fails => None,
    });
    let parts: Vec<String> = left_out.collect();
    (!parts.is_empty()).then(|| parts.join(" and "))
}

pub fn tools_folder(root: &Path) -> PathBuf {
    root.join("target/tools")
}

/// Installs what is missing and answers with what still is.
pub fn install(requirements: &'static [Requirement]) -> Result<Vec<Unmet>> {
    let tools = tools_folder(&workspace::root()?);
    let is_missing = |one: &&Requirement| !is_there(one, &tools);
    let missing: Vec<&'static Requirement> = requirements.iter().filter(is_missing).collect();
    for requirement in requirements {
        let state = if is_missing(&requirement) { "MISSING" } else { "there" };
        println!("{:<20} {state:<8} {}", requirement.name, requirement.why);
    }
    let _no_services = missing.iter().any(|one| is_apt(one.kind)).then(NoServices::new);
    for words in commands(&missing, &tools) {
        // Whether it helped is asked below, one requirement at a time.
        if !run_command(&words)? {
            println!("FAILED: {}", words.join(" "));
        }
    }
    let still_missing = missing.into_iter().filter(is_missing);
    Ok(still_missing.map(|one| Unmet { requirement: one, reason: reason(one) }).collect())
}

fn is_there(requirement: &Requirement, tools: &Path) -> bool {
    match requirement.kind {
        Kind::Apt { program } | Kind::Cargo { program } | Kind::Machine { program } => {
            process::on_path(program)
        }
        Kind::AptFile { file } => Path::new(file).exists(),
        Kind::Pip => {
            let name = requirement.name.split(['=', '<', '>', '[']).next().unwrap_or_default();
            let script = format!("import importlib.metadata as m; m.version('{name}')");
            process::succeeds(Command::new(tools.join("venv/bin/python")).args(["-c", &script]))
        }
        Kind::Npm => tools.join("npm/node_modules").join(requirement.name).is_dir(),
    }
}

fn is_apt(kind: Kind) -> bool {
    matches!(kind, Kind::Apt { .. } | Kind::AptFile { .. })
}

fn reason(requirement: &Requirement) -> String {
    match requirement.kind {
        Kind::Machine { program } => {
            format!("{program} is not on this machine, and no registry has it")
        }
        Kind::Apt { .. } | Kind::AptFile { .. } | Kind::Pip | Kind::Npm | Kind::Cargo { .. } => {
            format!(
                "{} is not on this machine and could not be installed, see above",
                requirement.name
            )
        }
    }
}

/// The command lines that install what is missing, one per installer and none where nothing is.
fn commands(missing: &[&Requirement], tools: &Path) -> Vec<Vec<String>> {
    let of = |wanted: fn(Kind) -> bool| -> Vec<&str> {
        missing.iter().filter(|one| wanted(one.kind)).map(|one| one.name).collect()
    };
    let path = |name: &str| tools.join(name).display().to_string();
    let (venv, pip, npm) = (path("venv"), path("venv/bin/pip"), path("npm"));
    let groups: [(Vec<&str>, &[&[&str]]); 4] = [
        (
            of(is_apt),
            &[&["apt-get", "update"], &["apt-get", "install", "--yes", "--no-install-recommends"]],
        ),
        (of(|kind| matches!(kind, Kind::Cargo { .. })), &[&["cargo", "install", "--locked"]]),
        (of(|kind| kind == Kind::Pip), &[&["python3", "-m", "venv", &venv], &[&pip, "install"]]),
        (
            of(|kind| kind == Kind::Npm),
            &[&["npm", "install", "--no-audit", "--no-fund", "--prefix", &npm]],
        ),
    ];
    groups.iter().flat_map(|(names, steps)| with_names(names, steps)).collect()
}

/// The last of the steps gets the names.
fn with_names(names: &[&str], steps: &[&[&str]]) -> Vec<Vec<String>> {
    let Some((last, first)) = steps.split_last().filter(|_| !names.is_empty()) else {
        return Vec::new();
    };
    let last: Vec<&str> = last.iter().chain(names).copied().collect();
    let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    first.iter().map(|words| owned(words)).chain([owned(&last)]).collect()
}

/// A program that cannot be started is as good as one that failed.
fn run_command(words: &[String]) -> Result<bool> {
    let (program, arguments) = words.split_first().context("a command has a program")?;
    let mut command = Command::new(program);
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    match process::run(&mut command) {
        Ok(passed) => Ok(passed),
        Err(error) => {
            println!("{error:#}");
            Ok(false)
        }
    }
}

/// While it lives, packages do not start the services they bring: tests start their own, on their
/// own ports.
struct NoServices {
    made: bool,
}

impl NoServices {
    fn new() -> Self {
        let write = || -> std::io::Result<()> {
            fs::write(POLICY_FILE, "#!/bin/sh\nexit 101\n")?;
            fs::set_permissions(POLICY_FILE, fs::Permissions::from_mode(0o755))
        };
        // A policy of the machine's owner stays as it is.
        let made = !Path::new(POLICY_FILE).exists() && write().is_ok();
        Self { made }
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if self.made && fs::remove_file(POLICY_FILE).is_err() {
            println!("FAILED: remove {POLICY_FILE}; services of new packages will not start");
        }
    }
}

#[cfg(test)]
mod tests;
