//! The files of resources, written and read from the command line.
use crate::harness::{Done, Home, ORRERY};
use std::process::Stdio;

const WORKLOAD: &str = "apiVersion: apps.orrery.dev/v1\nkind: Workload\nmetadata:\n  name: web\n  \
    project: default\nspec:\n  process:\n    command: sleep\n  placement:\n    nodes: [nowhere]\n";

fn home() -> (Home, crate::harness::Up) {
    let home = Home::new();
    let up = home.up();
    let file = home.write("web.yaml", WORKLOAD);
    home.orrery(&["apply", "-f", file.to_str().unwrap()]).good();
    (home, up)
}

fn artifact(home: &Home, words: &[&str]) -> Done {
    let mut command = home.command(ORRERY);
    command.arg("artifact").args(words).current_dir(home.folder.path());
    Done::from(command.output().unwrap())
}

/// proves: HUB-11
#[test]
fn files_are_written_listed_read_and_deleted() {
    let (home, _up) = home();
    let large: Vec<u8> = (0..3_000_000_u32).flat_map(u32::to_le_bytes).collect();
    home.write("app.conf", "a=1\n");
    home.write("large.bin", &large);
    let said = artifact(&home, &["put", "workload/web", "app.conf", "etc/app.conf"]).good();
    assert_eq!(said, "workload/web etc/app.conf written (4 B)\n");
    let said = artifact(&home, &["put", "workload/web", "large.bin"]).good();
    assert_eq!(said, "workload/web large.bin written (11.4 MiB)\n");
    let list = artifact(&home, &["list", "workload/web"]).good();
    let rows: Vec<Vec<&str>> = list.lines().map(|l| l.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["PATH", "SIZE", "SHA-256"]);
    assert_eq!(rows[1][..3], ["etc/app.conf", "4", "B"]);
    assert_eq!(rows[2][..3], ["large.bin", "11.4", "MiB"]);
    std::fs::remove_file(home.path("app.conf")).unwrap();
    let said = artifact(&home, &["get", "workload/web", "etc/app.conf"]).good();
    assert_eq!(said, "app.conf written (4 B)\n");
    assert_eq!(std::fs::read(home.path("app.conf")).unwrap(), b"a=1\n");
    assert_eq!(artifact(&home, &["get", "wl/web", "etc/app.conf", "-"]).good(), "a=1\n");
    artifact(&home, &["get", "workload/web", "large.bin", "copy.bin"]).good();
    assert!(std::fs::read(home.path("copy.bin")).unwrap() == large, "it came back as it was");
    let said = artifact(&home, &["delete", "workload/web", "large.bin", "nope", "etc/app.conf"]);
    assert!(said.out.contains("large.bin deleted") && said.out.contains("etc/app.conf deleted"));
    assert!(said.bad(1).contains("has no artifact \"nope\""));
    assert!(artifact(&home, &["list", "workload/web"]).err.contains("workload/web has no files"));
}

/// proves: HUB-11
#[test]
fn files_beside_a_manifest_come_with_it() {
    let (home, _up) = home();
    let folder = home.path("app");
    std::fs::create_dir_all(folder.join("etc")).unwrap();
    let named = "  files:\n  - {path: app.conf, artifact: {path: etc/app.conf}}\n  - {path: tool, \
                 artifact: {path: bin/tool}}\n";
    std::fs::write(folder.join("web.yaml"), format!("{WORKLOAD}{named}")).unwrap();
    std::fs::write(folder.join("etc/app.conf"), "a=1\n").unwrap();
    let apply =
        |more: &[&str]| home.orrery(&[&["apply", "-f", folder.to_str().unwrap()], more].concat());
    let said = apply(&["--dry-run"]);
    assert!(said.out.contains("etc/app.conf written (4 B) (dry run)"), "{said:?}");
    assert!(artifact(&home, &["list", "workload/web"]).err.contains("has no files"));
    let said = apply(&[]);
    assert!(said.out.contains("workload/web etc/app.conf written (4 B)\n"), "{said:?}");
    assert!(said.err.contains("bin/tool is neither beside"), "{said:?}");
    assert_eq!(artifact(&home, &["get", "workload/web", "etc/app.conf", "-"]).good(), "a=1\n");

    std::fs::create_dir(folder.join("bin")).unwrap();
    std::fs::write(folder.join("bin/tool"), "x").unwrap();
    let said = apply(&[]);
    assert!(said.out.contains("etc/app.conf unchanged\n"), "{said:?}");
    assert!(said.out.contains("bin/tool written (1 B)\n") && said.err.is_empty(), "{said:?}");

    // Nothing of another folder is ever sent, whatever a manifest says.
    home.write("secret", "s");
    let leak = format!("{WORKLOAD}  files:\n  - {{path: x, artifact: {{path: ../secret}}}}\n");
    std::fs::write(folder.join("web.yaml"), leak).unwrap();
    let said = apply(&[]);
    assert!(said.out.is_empty(), "nothing was applied: {said:?}");
    assert!(said.bad(1).contains("must not have . or .. as a part"));
}

#[test]
fn standard_input_becomes_a_file() {
    let (home, _up) = home();
    let mut command = home.command(ORRERY);
    command.args(["artifact", "put", "workload/web", "-", "a/b"]);
    let text = home.write("text", "from a pipe\n");
    command.stdin(Stdio::from(std::fs::File::open(text).unwrap()));
    Done::from(command.output().unwrap()).good();
    assert_eq!(artifact(&home, &["get", "workload/web", "a/b", "-"]).good(), "from a pipe\n");
    assert!(artifact(&home, &["put", "workload/web", "-"]).bad(1).contains("which path"));
}

#[test]
fn what_cannot_be_written_or_read_is_said() {
    let (home, _up) = home();
    let huge = std::fs::File::create(home.path("huge")).unwrap();
    huge.set_len((48 << 20) + 1).unwrap();
    home.write("small", "x");
    for (words, expect) in [
        ("put workload/web huge", "a file may have 48 MiB at most"),
        ("put workload/web absent", "read absent"),
        ("put workload/web .", "has no name of its own"),
        ("put workload/web . x", "is a folder"),
        ("put workload/web small ../x", ".."),
        ("put workload/nope small", "\"nope\" not found"),
        ("put project/default small", "projects have no files"),
        ("put web small", "KIND/NAME"),
        ("get workload/web nope", "has no artifact \"nope\""),
        ("list workload/web -p nope", "not found"),
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let said = artifact(&home, &words).bad(1);
        assert!(said.contains(expect), "{words:?}: {said}");
    }
    // Nothing is left of what failed, neither here nor there.
    let left: Vec<_> = std::fs::read_dir(home.folder.path()).unwrap().flatten().collect();
    assert!(left.iter().all(|entry| !entry.file_name().to_string_lossy().starts_with(".orrery-")));
    assert!(artifact(&home, &["list", "workload/web"]).err.contains("has no files"));
    artifact(&home, &["list", "workload/web", "--server", "http://127.0.0.1:1"]).bad(3);
}
