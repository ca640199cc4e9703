//! `cargo xtask test`: everything that must hold before a change lands, from a clean clone.
//!
//! ```text
//!   plan --> install what is missing --> checks (tidy, fmt, clippy, deny) --> tests --> summary
//! ```
//!
//! Steps and requirements are data ([`step::STEPS`], [`REQUIREMENTS`]). A step that fails
//! does not keep the others from running: one run tells everything that is wrong. What could not run
//! is listed at the end, loudly, with its reason.

mod counts;
mod left_out;
mod step;
mod summary;

use std::process::Command;

use anyhow::{Result, bail};

use self::counts::Counts;
use self::step::{STEPS, Step, Work};
use self::summary::{Line, NotRun, Outcome, Report};
use crate::process::{self, Listen};
use crate::tidy;
use crate::tools::{self, Absent, REQUIREMENTS, Unmet};

/// Runs the named steps, or all of them; true when none failed.
pub fn run(names: &[&str]) -> Result<bool> {
    let steps = chosen(names)?;
    println!("{}", summary::plan(&steps));
    let mut report = Report::default();
    let mut unmet = Vec::new();
    for (index, step) in steps.iter().enumerate() {
        println!("\n==> {}/{} {}: {}", index + 1, steps.len(), step.name, step.about);
        let (outcome, took) = process::timed(|| run_step(step, &mut report, &mut unmet));
        let outcome = outcome.unwrap_or_else(|error| Outcome::Failed(format!("{error:#}")));
        println!("<== {}: {outcome} in {:.1} s", step.name, took.as_secs_f64());
        report.lines.push(Line { step: step.name, outcome, took });
    }
    println!("\n{}", summary::render(&report));
    Ok(report.passed())
}

fn chosen(names: &[&str]) -> Result<Vec<&'static Step>> {
    let known = |name: &str| STEPS.iter().any(|step| step.name == name);
    if let Some(stranger) = names.iter().find(|name| !known(name)) {
        let all: Vec<&str> = STEPS.iter().map(|step| step.name).collect();
        bail!("no step is called {stranger:?}; the steps are: {}", all.join(", "));
    }
    let wanted = |step: &&Step| names.is_empty() || names.contains(&step.name);
    Ok(STEPS.iter().filter(wanted).collect())
}

fn run_step(step: &'static Step, report: &mut Report, unmet: &mut Vec<Unmet>) -> Result<Outcome> {
    match step.work {
        Work::Install => {
            *unmet = tools::install(&REQUIREMENTS.iter().collect::<Vec<_>>())?;
            report.not_run.extend(unmet.iter().map(left_out::not_run));
            Ok(install_outcome(unmet))
        }
        Work::Tidy => tidy::run().map(Outcome::of),
        Work::Cargo(words) => process::run(process::cargo().args(words)).map(Outcome::of),
        Work::Optional { program, words, otherwise } => {
            if process::on_path(program) {
                return process::run(process::cargo().args(words)).map(Outcome::of);
            }
            let reason = format!("{program} is not on this machine; {otherwise}");
            report.not_run.push(NotRun { what: step.name.to_owned(), reason: reason.clone() });
            Ok(Outcome::NotRun(reason))
        }
        Work::DocTests => doc_tests(&mut report.counts),
        Work::Tests => tests(&mut report.counts, unmet),
    }
}

/// A missing tool whose tests can be left out is reported as not run; any other is a failure.
fn install_outcome(unmet: &[Unmet]) -> Outcome {
    let fatal = unmet.iter().filter(|unmet| unmet.requirement.absent == Absent::Fails);
    let names: Vec<&str> = fatal.map(|unmet| unmet.requirement.name).collect();
    if names.is_empty() {
        return Outcome::Passed;
    }
    Outcome::Failed(format!("could not install: {}", names.join(", ")))
}

fn doc_tests(counts: &mut Counts) -> Result<Outcome> {
    let packages = tidy::packages_with_doc_tests()?;
    if packages.is_empty() {
        println!("no crate has examples in its docs");
        return Ok(Outcome::Passed);
    }
    let mut command = process::cargo();
    command.args(["test", "--doc"]);
    for package in &packages {
        command.args(["-p", package]);
    }
    let listen = |line: &str| counts.add_libtest(line);
    process::run_listening(&mut command, Listen::Stdout, listen).map(Outcome::of)
}

fn tests(counts: &mut Counts, unmet: &[Unmet]) -> Result<Outcome> {
    let mut command: Command = process::cargo();
    command.args(["nextest", "run", "--workspace", "--no-fail-fast"]);
    if let Some(filter) = left_out::filter(unmet) {
        command.args(["-E", &filter]);
    }
    command.env("ORRERY_TOOLS", tools::folder()?);
    let before = counts.clone();
    let passed =
        process::run_listening(&mut command, Listen::Stderr, |line| counts.add_nextest(line))?;
    if passed && *counts == before {
        return Ok(Outcome::Failed("no test ran".to_owned()));
    }
    Ok(Outcome::of(passed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_chosen_by_name_and_keep_their_order() {
        let names = |words: &[&str]| -> Vec<&str> {
            chosen(words).unwrap().iter().map(|step| step.name).collect()
        };
        assert_eq!(names(&[]).len(), STEPS.len());
        assert_eq!(names(&["fmt", "tidy"]), ["tidy", "fmt"]);
        let error = chosen(&["tidy", "nope"]).expect_err("unknown").to_string();
        assert!(error.contains("\"nope\"") && error.contains("clippy"), "{error}");
    }

    /// The closing lines of the run must be those of the real tests.
    #[test]
    fn tests_come_last() {
        assert!(matches!(STEPS.last().unwrap().work, Work::Tests));
        assert!(matches!(STEPS.first().unwrap().work, Work::Install));
    }
}
