use super::*;

const fn mk(name: &'static str, kind: Kind, absent: Absent) -> Requirement {
    Requirement { name, kind, why: "tests", absent }
}

const APT: Requirement = mk("etcd-server", Kind::Apt { program: "etcd" }, Absent::Fails);
const FONT: Requirement = mk("fonts", Kind::AptFile { file: "/no/such/font" }, Absent::Fails);
const PIP: Requirement = mk("kubernetes==31", Kind::Pip, Absent::Fails);
const NPM: Requirement = mk("playwright-core", Kind::Npm, Absent::Fails);
const CARGO: Requirement = mk("cargo-x", Kind::Cargo { program: "cargo-x" }, Absent::Fails);
const MACHINE: Requirement =
    mk("tf", Kind::Machine { program: "no-such-tf" }, Absent::LeavesOut("test(/tf/)"));

#[track_caller]
fn check(missing: &[&Requirement], expect: &[&str]) {
    let lines = commands(missing, Path::new("T"));
    let lines: Vec<String> = lines.iter().map(|words| words.join(" ")).collect();
    assert_eq!(lines, expect);
}

#[test]
fn one_command_per_installer_and_none_for_nothing() {
    check(&[], &[]);
    check(&[&MACHINE], &[]);
    check(
        &[&APT, &FONT],
        &["apt-get update", "apt-get install --yes --no-install-recommends etcd-server fonts"],
    );
    check(&[&CARGO], &["cargo install --locked cargo-x"]);
    check(&[&PIP], &["python3 -m venv T/venv", "T/venv/bin/pip install kubernetes==31"]);
    check(&[&NPM, &MACHINE], &["npm install --no-audit --no-fund --prefix T/npm playwright-core"]);
}

#[test]
fn what_is_there_is_seen() {
    let dir = tempfile::tempdir().unwrap();
    let there = |kind| is_there(&mk("x", kind, Absent::Fails), dir.path());
    assert!(there(Kind::Apt { program: "sh" }));
    assert!(!there(Kind::Apt { program: "no-such-program" }));
    assert!(there(Kind::AptFile { file: "/" }));
    assert!(!there(Kind::AptFile { file: "/no/such/file" }));
    assert!(!there(Kind::Pip));
    assert!(!there(Kind::Npm));
    fs::create_dir_all(dir.path().join("npm/node_modules/x")).unwrap();
    assert!(there(Kind::Npm));
}

#[test]
fn tests_of_missing_tools_are_left_out_by_name() {
    static LIST: [Requirement; 2] = [APT, MACHINE];
    let unmet = |requirement| Unmet { requirement, reason: reason(requirement) };
    assert_eq!(filter(&[]), None);
    assert_eq!(filter(&[unmet(&LIST[0])]), None);
    assert_eq!(filter(&[unmet(&LIST[1])]).as_deref(), Some("not (test(/tf/))"));
    let both = [unmet(&LIST[1]), unmet(&LIST[1])];
    assert_eq!(filter(&both).as_deref(), Some("not (test(/tf/)) and not (test(/tf/))"));
    let said = unmet(&LIST[1]).not_run();
    assert!(said.what.contains("test(/tf/)") && said.reason.contains("no registry"), "{said:?}");
}
