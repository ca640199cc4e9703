use super::*;
use crate::tools::Absent;

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

static ALL: [Requirement; 6] = [APT, FONT, PIP, NPM, CARGO, MACHINE];

/// Runs what the names ask for, with installers that fail for every command line with `bad` in it.
#[track_caller]
fn check(missing: &str, bad: &str, expect: &[&str]) {
    let wanted = missing.split_whitespace();
    let missing: Vec<_> =
        wanted.map(|name| ALL.iter().find(|one| one.name == name).unwrap()).collect();
    let mut ran = Vec::new();
    for batch in batches(&missing, Path::new("T")) {
        let mut run = |words: &[String]| {
            ran.push(words.join(" "));
            Ok(!words.iter().any(|word| word == bad))
        };
        batch.run(&mut run).unwrap();
    }
    assert_eq!(ran, expect);
}

#[test]
fn one_command_per_installer_and_none_for_nothing() {
    check("", "", &[]);
    check("tf", "", &[]);
    let apt = "apt-get install --yes --no-install-recommends";
    check("etcd-server fonts", "", &["apt-get update", &format!("{apt} etcd-server fonts")]);
    check("cargo-x", "", &["cargo install --locked cargo-x"]);
    let pip = ["python3 -m venv T/venv", "T/venv/bin/pip install kubernetes==31"];
    check("kubernetes==31", "", &pip);
    let npm = "npm install --no-audit --no-fund --prefix T/npm playwright-core";
    check("playwright-core tf", "", &[npm]);
}

#[test]
fn one_bad_name_does_not_keep_the_others_away() {
    let apt = |names: &str| format!("apt-get install --yes --no-install-recommends {names}");
    let (both, one, other) = (apt("etcd-server fonts"), apt("etcd-server"), apt("fonts"));
    check("etcd-server fonts", "fonts", &["apt-get update", &both, &one, &other]);
    check("fonts", "fonts", &["apt-get update", &other]);
}

/// A machine had a newer package than its Debian has; what was installed beside it took it away.
#[test]
fn what_goes_with_an_installation_is_brought_again() {
    use std::cell::RefCell;
    let there = RefCell::new(vec!["fonts", "cargo-x", "playwright-core"]);
    let asked = RefCell::new(Vec::new());
    let is_missing = |one: &Requirement| !there.borrow().contains(&one.name);
    let mut bring = |missing: &[&'static Requirement]| {
        let names: Vec<&str> = missing.iter().map(|one| one.name).collect();
        let first = asked.borrow().is_empty();
        // No registry has the last.
        there.borrow_mut().extend(names.iter().filter(|name| **name != "tf"));
        there.borrow_mut().retain(|name| !first || *name != "fonts");
        asked.borrow_mut().push(names);
        Ok(())
    };
    let missing = brought(&ALL.iter().collect::<Vec<_>>(), &is_missing, &mut bring).unwrap();
    assert_eq!(missing.iter().map(|one| one.name).collect::<Vec<_>>(), ["tf"]);
    assert_eq!(*asked.borrow(), [vec!["etcd-server", "kubernetes==31", "tf"], vec!["fonts"]]);
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
fn services_stay_down_only_meanwhile() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("policy-rc.d");
    let guard = NoServices::new(&file);
    let status = Command::new(&file).status().unwrap();
    assert_eq!(status.code(), Some(101), "the code by which Debian understands: forbidden");
    drop(guard);
    assert!(!file.exists());

    fs::write(&file, "the owner's").unwrap();
    drop(NoServices::new(&file));
    assert_eq!(fs::read_to_string(&file).unwrap(), "the owner's");
}

#[test]
fn the_folder_of_a_node_package_has_no_version() {
    let cases = [
        ("playwright-core", "playwright-core"),
        ("playwright-core@1.2.3", "playwright-core"),
        ("@scope/name", "@scope/name"),
        ("@scope/name@1.2.3", "@scope/name"),
    ];
    for (name, folder) in cases {
        assert_eq!(npm_folder(name), folder);
    }
}
