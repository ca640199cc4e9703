//! The steps of a test run, in order.

#[derive(Debug)]
pub struct Step {
    pub name: &'static str,
    pub about: &'static str,
    pub work: Work,
}

#[derive(Debug)]
pub enum Work {
    Install,
    Tidy,
    /// `cargo` with these words.
    Cargo(&'static [&'static str]),
    /// `cargo` with these words if the program is there; else what makes up for it is said.
    Optional {
        program: &'static str,
        words: &'static [&'static str],
        otherwise: &'static str,
    },
    DocTests,
    Tests,
}

pub const STEPS: &[Step] = &[
    Step { name: "install", about: "what the tests need and is missing", work: Work::Install },
    Step { name: "tidy", about: "the rules of CONTRIBUTING.md", work: Work::Tidy },
    Step { name: "fmt", about: "formatting", work: Work::Cargo(&["fmt", "--all", "--check"]) },
    Step {
        name: "clippy",
        about: "lints, warnings refused",
        work: Work::Cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]),
    },
    // Building it takes longer than all other checks together (140 s on two cores), so it is not
    // installed: tidy applies the lists of deny.toml in a second.
    Step {
        name: "deny",
        about: "bans, licences and sources of dependencies",
        work: Work::Optional {
            program: "cargo-deny",
            words: &["deny", "--workspace", "check", "bans", "licenses", "sources"],
            otherwise: "tidy has applied the lists of deny.toml (cargo install --locked cargo-deny)",
        },
    },
    Step { name: "doc", about: "examples in the docs", work: Work::DocTests },
    Step { name: "test", about: "every test of the workspace", work: Work::Tests },
];
