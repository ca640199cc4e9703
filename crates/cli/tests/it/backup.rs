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

fn released(version: &str) -> String {
    format!(
        "apiVersion: apps.orrery.dev/v1\nkind: Workload\nmetadata: {{name: web, project: default}}\nspec:\n  \
         version: \"{version}\"\n  process: {{command: sleep, args: [\"{version}\"]}}\n  placement: {{nodes: [nowhere]}}\n"
    )
}

/// Versions are listed, read, gone back to, and part of a backup.
///
/// proves: HUB-12
#[test]
fn versions_are_kept_and_backed_up() {
    let home = Home::new();
    let mut up = home.up();
    for version in ["1.0", "1.1", "1.2"] {
        let file = home.write("web.yaml", released(version));
        home.orrery(&["apply", "-f", file.to_str().unwrap()]).good();
    }
    let names = ["get", "workload", "web", "--versions", "-o", "name"];
    assert_eq!(home.orrery(&names).good(), "1.2\n1.1\n1.0\n");
    let table = home.orrery(&["get", "workload/web", "--versions"]).good();
    let words: Vec<Vec<&str>> = table.lines().map(|it| it.split_whitespace().collect()).collect();
    assert_eq!(words[0], ["VERSION", "GENERATION", "CURRENT", "UNTIL"]);
    assert_eq!(words[1], ["1.2", "3", "yes", "-"]);
    let kept = home.orrery(&["get", "workload", "web", "--version", "1.0", "-o", "yaml"]).good();
    assert!(kept.contains("version: \"1.0\"") && !kept.contains("resourceVersion"), "{kept}");
    let file = home.write("kept.yaml", kept);
    let said = home.orrery(&["apply", "-f", file.to_str().unwrap()]).good();
    assert_eq!(said, "workload/web changed\n");
    assert_eq!(home.orrery(&names).good(), "1.0\n1.2\n1.1\n");
    let absent = home.orrery(&["get", "workload", "web", "--version", "9"]).bad(1);
    assert!(absent.contains("\"9\" not found"), "{absent}");
    assert!(home.orrery(&["get", "workloads", "--versions"]).bad(1).contains("name it"));
    let none = home.orrery(&["get", "project", "default", "--versions"]).bad(1);
    assert!(none.contains("no versions are kept of projects"), "{none}");

    let file = home.path("versions.backup");
    home.orrery(&["backup", file.to_str().unwrap()]).good();
    assert!(up.interrupt().success());
    let folder = home.path("restored");
    let folder = folder.to_str().unwrap();
    home.orrery(&["restore", file.to_str().unwrap(), "--data-dir", folder]).good();
    let _up = home.start(&["up", "--listen", "127.0.0.1:0", "--data-dir", folder]);
    assert_eq!(home.orrery(&names).good(), "1.0\n1.2\n1.1\n");
    let kept = home.orrery(&["get", "workload", "web", "--version", "1.2", "-o", "json"]).good();
    assert!(kept.contains("\"1.2\""), "{kept}");
}

/// What one project shares is read from another with the usual commands.
///
/// proves: HUB-09
#[test]
fn shared_secrets_are_read_also_after_a_restart() {
    let home = Home::new();
    let folder = home.path("data");
    let folder = folder.to_str().unwrap();
    let start = || home.start(&["up", "--listen", "127.0.0.1:0", "--data-dir", folder]);
    let mut up = start();
    let project = |name: &str| {
        format!("---\napiVersion: core.orrery.dev/v1\nkind: Project\nmetadata: {{name: {name}}}\n")
    };
    let secret = "---\napiVersion: core.orrery.dev/v1\nkind: Secret\nmetadata: {name: registry, project: platform}\n\
        spec:\n  stringData: {token: hush}\n  sharing: {enabled: true, projects: [{name: shop}]}\n";
    let text = project("platform") + &project("shop") + &project("other") + secret;
    let file = home.write("shared.yaml", text);
    home.orrery(&["apply", "-f", file.to_str().unwrap()]).good();
    let listed =
        |project: &str| home.orrery(&["get", "secrets", "-p", project, "-o", "name"]).good();
    let check = || {
        assert_eq!(listed("shop"), "secret/registry\n");
        assert_eq!(listed("other"), "");
        let shown = home.orrery(&["get", "secret", "registry", "-p", "shop", "-o", "yaml"]).good();
        assert!(shown.contains("orrery.dev/shared-from: platform"), "{shown}");
        let gone = home.orrery(&["delete", "secret", "registry", "-p", "shop"]).bad(1);
        assert!(gone.contains("can only be read here"), "{gone}");
        // All of a project's own, of which there are none.
        home.orrery(&["delete", "secrets", "--all", "-p", "shop"]).good();
    };
    check();
    assert!(up.interrupt().success());
    let _up = start();
    check();
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
