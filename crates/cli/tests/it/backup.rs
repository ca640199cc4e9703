//! A backup of a running server, and a server made out of it.
use crate::harness::Home;
use std::os::unix::fs::PermissionsExt as _;

#[test]
fn what_was_backed_up_while_running_is_there_after_a_restore() {
    let home = Home::new();
    let mut up = home.up();
    home.orrery(&["apply", "-f", "examples/hello.yaml"]).good();
    let file = home.path("monday.backup");
    let file = file.to_str().unwrap();
    let said = home.orrery(&["backup", file]).good();
    assert!(said.contains("entries at revision"), "{said}");
    let mode = std::fs::metadata(file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it holds everything");
    let said = home.orrery(&["backup", file]).bad(1);
    assert!(said.contains("is there already"), "{said}");
    home.orrery(&["delete", "-f", "examples/hello.yaml"]).good();
    assert!(up.interrupt().success());

    let folder = home.path("restored");
    let folder = folder.to_str().unwrap();
    home.orrery(&["restore", file, "--data-dir", folder]).good();
    let _up = home.start(&["up", "--listen", "127.0.0.1:0", "--data-dir", folder]);
    let names = home.orrery(&["get", "workloads", "-A", "-o", "name"]).good();
    assert_eq!(names, "workload/hello\n");
    let said = home.orrery(&["restore", file, "--data-dir", folder]).bad(1);
    assert!(said.contains(folder), "a folder in use is not overwritten: {said}");
}

#[test]
fn a_damaged_backup_is_refused_and_named() {
    let home = Home::new();
    let up = home.up();
    let file = home.path("b.backup");
    home.orrery(&["backup", file.to_str().unwrap()]).good();
    drop(up);
    let mut bytes = std::fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    std::fs::write(&file, bytes).unwrap();
    let folder = home.path("restored");
    let arguments = ["restore", file.to_str().unwrap(), "--data-dir", folder.to_str().unwrap()];
    let said = home.orrery(&arguments).bad(1);
    assert!(said.contains("b.backup"), "{said}");
    assert!(!folder.join("store").exists(), "nothing is half done");
}
