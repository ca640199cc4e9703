//! `cargo xtask soak fuzz [SECONDS [TARGET...]]`: libFuzzer on every target, one after the other.
//!
//! Coverage needs no nightly compiler: the instrumentation is a pass of LLVM that stable options turn
//! on. What was found worth keeping stays in `target/fuzz/corpus` and the next run goes on from there.

use anyhow::{Context as _, Result, bail, ensure};
use orrery_fuzz::{TARGETS, Target};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Seconds for each target, unless told otherwise.
const SECONDS: &str = "60";
/// Larger inputs find little that smaller ones do not, and take longer.
const INPUT_BYTES_MAX: usize = 16 << 10;
/// A decoder that needs more for one small input has no bound.
const MEMORY_MIB_MAX: usize = 1024;
/// Seconds for one input; a decoder that needs more can be made to hang a server.
const INPUT_SECONDS_MAX: usize = 5;

const COVERAGE: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1";

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (seconds, names) = match words.split_first() {
        None => (SECONDS, [].as_slice()),
        Some((seconds, names)) => (seconds.as_str(), names),
    };
    let _: u32 = seconds.parse().context("the first word is the seconds for each target")?;
    if let Some(unknown) = names.iter().find(|name| orrery_fuzz::find(name).is_none()) {
        let known: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        bail!("there is no target {unknown:?}; the targets are {}", known.join(", "));
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/fuzz");
    let program = build(&folder)?;
    let wanted = |target: &&Target| names.is_empty() || names.iter().any(|n| n == target.name);
    let mut failed = Vec::new();
    for target in TARGETS.iter().filter(wanted) {
        if !run(target, &program, &folder, seconds)? {
            failed.push(target.name);
        }
    }
    ensure!(failed.is_empty(), "inputs were found that break: {}", failed.join(", "));
    say("nothing found")
}

fn say(line: &str) -> Result<()> {
    writeln!(std::io::stdout(), "{line}").context("write to standard output")
}

fn build(folder: &Path) -> Result<PathBuf> {
    let host = host()?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--profile", "fuzz", "-p", "orrery-fuzz", "--bin", "fuzz"]);
    // With a target of its own, build scripts and macros are not instrumented.
    cargo.args(["--features", "libfuzzer", "--target", &host, "--target-dir"]).arg(folder);
    cargo.env("RUSTFLAGS", COVERAGE).env_remove("CARGO_ENCODED_RUSTFLAGS");
    ensure!(cargo.status().context("run cargo")?.success(), "cannot build the fuzzer");
    Ok(folder.join(host).join("fuzz/fuzz"))
}

fn host() -> Result<String> {
    let said = Command::new("rustc").arg("-vV").output().context("run rustc")?;
    let text = String::from_utf8(said.stdout).context("read what rustc says of itself")?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.context("rustc does not say what it runs on")?.to_owned())
}

fn run(target: &Target, program: &Path, folder: &Path, seconds: &str) -> Result<bool> {
    let (corpus, found) = (folder.join("corpus").join(target.name), folder.join("found"));
    for folder in [&corpus, &found] {
        std::fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    }
    for (number, seed) in target.seeds.iter().enumerate() {
        let file = corpus.join(format!("seed-{number}"));
        std::fs::write(&file, seed).with_context(|| format!("write {}", file.display()))?;
    }
    say(&format!("{}: {seconds} s", target.name))?;
    let mut command = Command::new(program);
    command.env("ORRERY_FUZZ_TARGET", target.name).arg(&corpus);
    command.arg(format!("-artifact_prefix={}/{}-", found.display(), target.name));
    command.args([
        format!("-max_total_time={seconds}"),
        format!("-max_len={INPUT_BYTES_MAX}"),
        format!("-rss_limit_mb={MEMORY_MIB_MAX}"),
        format!("-timeout={INPUT_SECONDS_MAX}"),
        "-print_final_stats=1".to_owned(),
        "-verbosity=0".to_owned(),
        "-print_funcs=0".to_owned(),
    ]);
    let status = command.status().with_context(|| format!("run {}", program.display()))?;
    if !status.success() {
        let (name, found, program) = (target.name, found.display(), program.display());
        say(&format!(
            "{name}: the input is in {found}; to run it again: ORRERY_FUZZ_TARGET={name} {program} FILE"
        ))?;
    }
    Ok(status.success())
}
