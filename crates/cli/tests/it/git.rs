//! Git sync from the command line: the tutorial of docs/git.md, and where resources came from.
use crate::harness::Home;
use std::path::Path;

fn git(home: &Home, folder: &Path, arguments: &[&str]) {
    let author = ["-c", "user.name=Ada", "-c", "user.email=ada@example.test"];
    let mut command = home.command("git");
    let done = command.args(author).args(arguments).current_dir(folder).output().unwrap();
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "git {arguments:?}: {said}");
}

const HELLO: &str = "apiVersion: apps.orrery.dev/v1\nkind: Workload\nmetadata: {name: hello}\nspec:\n  process: {command: sleep}\n  placement: {nodes: [nowhere]}\n";

/// proves: HUB-16, HUB-17
#[test]
fn a_project_follows_a_repository() {
    let home = Home::new();
    let _up = home.start(&["up", "--listen", "127.0.0.1:0", "--git-allow-local"]);
    let (there, work) = (home.path("things.git"), home.path("things"));
    git(&home, home.folder.path(), &["init", "-q", "--bare", "-b", "main", "things.git"]);
    git(&home, home.folder.path(), &["init", "-q", "-b", "main", "things"]);
    std::fs::write(work.join("hello.yaml"), HELLO).unwrap();
    git(&home, &work, &["add", "."]);
    git(&home, &work, &["commit", "-q", "-m", "Say hello"]);
    git(&home, &work, &["push", "-q", there.to_str().unwrap(), "HEAD:main"]);
    let sync = format!(
        "apiVersion: core.orrery.dev/v1\nkind: GitSync\nmetadata: {{name: things, project: default}}\nspec:\n  repository: file://{}\n",
        there.display()
    );
    let sync = home.write("sync.yaml", sync);
    home.orrery(&["apply", "-f", sync.to_str().unwrap(), "--wait", "--timeout", "60s"]).good();
    let table = home.orrery(&["get", "gitsyncs"]).good();
    assert!(table.starts_with("NAME     STATE    COMMIT "), "{table}");
    assert!(table.lines().nth(1).unwrap().starts_with("things   Synced   "), "{table}");

    let shown = home.orrery(&["get", "workload", "hello", "-o", "yaml"]).good();
    assert!(!shown.contains("lineage"), "{shown}");
    let asked = ["get", "workload", "hello", "-o", "yaml", "--include-lineage"];
    let shown = home.orrery(&asked).good();
    assert!(shown.contains("orrery.dev/lineage: \"{\\\"sync\\\":\\\"things\\\""), "{shown}");
}

/// proves: HUB-16
#[test]
fn a_file_says_where_something_came_from_only_if_that_is_asked_for() {
    let home = Home::new();
    let _up = home.up();
    let noted = HELLO.replace(
        "{name: hello}",
        "{name: hello, project: default, annotations: {orrery.dev/lineage: mine}}",
    );
    let file = home.write("noted.yaml", noted);
    let file = file.to_str().unwrap();
    let shown =
        || home.orrery(&["get", "workload", "hello", "-o", "yaml", "--include-lineage"]).good();
    home.orrery(&["apply", "-f", file]).good();
    assert!(!shown().contains("lineage"));
    home.orrery(&["apply", "-f", file, "--include-lineage"]).good();
    assert!(shown().contains("orrery.dev/lineage: mine"));
    home.orrery(&["apply", "-f", file]).good();
    assert!(shown().contains("orrery.dev/lineage: mine"), "it stays");
}
