//! Installing what is missing, and only that.
//!
//! Python and Node packages go into folders under `target/tools`, so that they are gone with a
//! `cargo clean` and never meet the ones of the machine. Tests find the folder in `ORRERY_TOOLS`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::requirement::{Kind, Requirement};
use crate::process;

/// Debian asks this program whether a service may be started after its package was installed.
const POLICY_FILE: &str = "/usr/sbin/policy-rc.d";

/// Unpacks packages into folders of the folder that `$0` names. A package that only stands for another
/// brings that one.
const UNPACK: &str = r#"for name; do
  real=$(apt-cache depends "$name" | sed -n 's/^ *Depends: \(linux-image-.*\)/\1/p' | head -n 1)
  rm -rf "$0/$name.new" && mkdir -p "$0/$name.new/x" && cd "$0/$name.new"
  apt-get download "${real:-$name}" && dpkg -x ./*.deb x
  rm -rf "$0/$name" && mv x "$0/$name" && cd / && rm -rf "$0/$name.new"
done"#;

/// A requirement that is still missing after everything was tried.
pub struct Unmet {
    pub requirement: &'static Requirement,
    pub reason: String,
}

/// Installs what is missing and answers with what still is.
pub fn install(requirements: &[&'static Requirement]) -> Result<Vec<Unmet>> {
    let tools = super::folder()?;
    let is_missing = |one: &Requirement| !is_there(one, &tools);
    for requirement in requirements {
        let state = if is_missing(requirement) { "MISSING" } else { "there" };
        println!("{:<20} {state:<8} {}", requirement.name, requirement.why);
    }
    let mut bring = |missing: &[&'static Requirement]| -> Result<()> {
        let apt = missing.iter().any(|one| is_apt(one.kind));
        let _no_services = apt.then(|| NoServices::new(Path::new(POLICY_FILE)));
        for batch in batches(missing, &tools) {
            // Whether it helped is asked afterwards, one requirement at a time.
            batch.run(&mut run_command)?;
        }
        Ok(())
    };
    let still_missing = brought(requirements, &is_missing, &mut bring)?;
    let unmet = still_missing.into_iter();
    Ok(unmet.map(|one| Unmet { requirement: one, reason: reason(one) }).collect())
}

/// Brings what is missing, and once more what went meanwhile: a package may take the place of one that was there
/// in another version. Answers with what is missing then.
fn brought(
    requirements: &[&'static Requirement],
    is_missing: &dyn Fn(&Requirement) -> bool,
    bring: &mut dyn FnMut(&[&'static Requirement]) -> Result<()>,
) -> Result<Vec<&'static Requirement>> {
    let missing = || requirements.iter().copied().filter(|one| is_missing(one)).collect::<Vec<_>>();
    let before = missing();
    bring(&before)?;
    let was_there = |one: &&Requirement| before.iter().all(|missing| missing.name != one.name);
    let gone: Vec<&'static Requirement> = missing().into_iter().filter(was_there).collect();
    if !gone.is_empty() {
        let names: Vec<&str> = gone.iter().map(|one| one.name).collect();
        println!("GONE, with what was installed: {}", names.join(", "));
        bring(&gone)?;
    }
    Ok(missing())
}

fn is_there(requirement: &Requirement, tools: &Path) -> bool {
    match requirement.kind {
        Kind::Apt { program } | Kind::Cargo { program } | Kind::Machine { program } => {
            process::on_path(program)
        }
        Kind::AptFile { file } => Path::new(file).exists(),
        Kind::AptUnpacked => tools.join("deb").join(requirement.name).is_dir(),
        Kind::Pip => {
            let name = requirement.name.split(['=', '<', '>', '[']).next().unwrap_or_default();
            let script = format!("import importlib.metadata as m; m.version('{name}')");
            process::succeeds(Command::new(tools.join("venv/bin/python")).args(["-c", &script]))
        }
        Kind::Npm => tools.join("npm/node_modules").join(npm_folder(requirement.name)).is_dir(),
    }
}

/// The folder of a Node package: its name without the version, `@scope/name@1.2.3`.
fn npm_folder(name: &str) -> &str {
    match name.rfind('@') {
        Some(at) if 0 < at => &name[..at],
        Some(_) | None => name,
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
        Kind::Apt { .. }
        | Kind::AptFile { .. }
        | Kind::AptUnpacked
        | Kind::Pip
        | Kind::Npm
        | Kind::Cargo { .. } => {
            format!(
                "{} is not on this machine and could not be installed, see above",
                requirement.name
            )
        }
    }
}

/// One installer, with what it has to bring.
struct Batch {
    /// Run first, once.
    prepare: Option<Vec<String>>,
    /// Followed by the names.
    install: Vec<String>,
    names: Vec<&'static str>,
}

impl Batch {
    fn new(prepare: Option<&[&str]>, install: &[&str], names: Vec<&'static str>) -> Self {
        let owned = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        Self { prepare: prepare.map(owned), install: owned(install), names }
    }

    /// All names at once, which is quick; one at a time if that failed, so that one bad name does not
    /// keep the others away.
    fn run(&self, run: &mut impl FnMut(&[String]) -> Result<bool>) -> Result<()> {
        if let Some(prepare) = &self.prepare {
            run(prepare)?;
        }
        if !run(&self.words(&self.names))? && 1 < self.names.len() {
            for name in &self.names {
                run(&self.words(&[name]))?;
            }
        }
        Ok(())
    }

    fn words(&self, names: &[&str]) -> Vec<String> {
        self.install.iter().cloned().chain(names.iter().map(|name| (*name).to_owned())).collect()
    }
}

/// What to run for everything that is missing; nothing for an installer that has nothing to bring.
fn batches(missing: &[&'static Requirement], tools: &Path) -> Vec<Batch> {
    let of = |wanted: fn(Kind) -> bool| -> Vec<&'static str> {
        missing.iter().filter(|one| wanted(one.kind)).map(|one| one.name).collect()
    };
    let path = |name: &str| tools.join(name).display().to_string();
    let (venv, pip, npm) = (path("venv"), path("venv/bin/pip"), path("npm"));
    let deb = path("deb");
    let apt = ["apt-get", "install", "--yes", "--no-install-recommends"];
    let batches = [
        Batch::new(Some(&["apt-get", "update"]), &apt, of(is_apt)),
        Batch::new(None, &["sh", "-ec", UNPACK, &deb], of(|kind| kind == Kind::AptUnpacked)),
        Batch::new(
            None,
            &["cargo", "install", "--locked"],
            of(|kind| matches!(kind, Kind::Cargo { .. })),
        ),
        Batch::new(
            Some(&["python3", "-m", "venv", &venv]),
            &[&pip, "install"],
            of(|kind| kind == Kind::Pip),
        ),
        Batch::new(
            None,
            &["npm", "install", "--no-audit", "--no-fund", "--prefix", &npm],
            of(|kind| kind == Kind::Npm),
        ),
    ];
    batches.into_iter().filter(|batch| !batch.names.is_empty()).collect()
}

/// A program that cannot be started is as good as one that failed.
fn run_command(words: &[String]) -> Result<bool> {
    let (program, arguments) = words.split_first().context("a command has a program")?;
    let mut command = Command::new(program);
    command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive");
    let passed = process::run(&mut command).unwrap_or_else(|error| {
        println!("{error:#}");
        false
    });
    if !passed {
        println!("FAILED: {}", words.join(" "));
    }
    Ok(passed)
}

/// While it lives, packages do not start the services they bring: tests start their own, on their
/// own ports.
struct NoServices {
    /// The file to take away again.
    made: Option<PathBuf>,
}

impl NoServices {
    /// A policy that is there already belongs to the machine's owner and stays as it is. One that
    /// cannot be written (without root) leaves the installation to fail by itself.
    fn new(file: &Path) -> Self {
        let write = || -> std::io::Result<()> {
            fs::write(file, "#!/bin/sh\nexit 101\n")?;
            fs::set_permissions(file, fs::Permissions::from_mode(0o755))
        };
        let made = !file.exists() && write().is_ok();
        Self { made: made.then(|| file.to_owned()) }
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if let Some(file) = self.made.take().filter(|file| fs::remove_file(file).is_err()) {
            println!("FAILED: remove {}; services of new packages will not start", file.display());
        }
    }
}

#[cfg(test)]
mod tests;
