//! The project's own commands, as `cargo xtask NAME`. It is built before everything else in CI, so it
//! is kept small and uses few crates.
//!
//! Owns: how the project is tested, and the rules that its sources are held to.
//! Not in it: anything that ships.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "printing is what a command line does"
)]

use std::process::ExitCode;

mod process;
mod suites;
mod test;
mod tidy;
mod tools;
mod workspace;

const USAGE: &str = "\
usage: cargo xtask COMMAND
  test [STEP...]        install what the tests need, then run every check and every test
  tidy                  hold the sources to the project's rules
  bench NAME [ARG...]   install what one benchmark suite needs, then run it
  soak [NAME [ARG...]]  the same for one long suite, or all of them";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether all went well. An error is a fault of the machinery, not of what was checked.
fn run(words: &[String]) -> anyhow::Result<bool> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["test", steps @ ..] => test::run(steps),
        ["tidy"] => tidy::run(),
        ["bench", words @ ..] => suites::bench(words),
        ["soak", words @ ..] => suites::soak(words),
        [] | ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(!words.is_empty())
        }
        [other, ..] => anyhow::bail!("no such command, or too many words: {other}\n{USAGE}"),
    }
}
