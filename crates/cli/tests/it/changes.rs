//! Commands that change what is there: label, annotate, patch, edit, delete, diff, prune.
use crate::harness::{Done, Home, ORRERY, until};
use serde_json::Value;

/// A workload that no node runs, so that nothing but the test changes it.
fn workload(name: &str, label: &str) -> String {
    format!(
        "apiVersion: apps.orrery.dev/v1\nkind: Workload\nmetadata:\n  name: {name}\n  project: default\n  \
         labels:\n    set: {label}\nspec:\n  process:\n    command: sleep\n    args: [\"60\"]\n  \
         placement:\n    nodes: [nowhere]\n"
    )
}

fn apply(home: &Home, name: &str, label: &str) {
    let file = home.write("one.yaml", workload(name, label));
    home.orrery(&["apply", "-f", file.to_str().unwrap()]).good();
}

fn get(home: &Home, name: &str) -> Value {
    let json = home.orrery(&["get", "workload", name, "-o", "json"]).good();
    serde_json::from_str(&json).unwrap()
}

fn names(home: &Home) -> String {
    home.orrery(&["get", "workloads", "-A", "-o", "name"]).good()
}

#[test]
fn labels_and_annotations_are_set_and_removed() {
    let home = Home::new();
    let _up = home.up();
    apply(&home, "web", "a");
    let said = home.orrery(&["label", "workload", "web", "app=web", "tier=front"]).good();
    assert_eq!(said, "workload/web labeled\n");
    assert_eq!(
        home.orrery(&["label", "workload/web", "app=web"]).good(),
        "workload/web unchanged\n"
    );
    assert!(home.orrery(&["label", "workload/web", "app=db"]).bad(1).contains("--overwrite"));
    home.orrery(&["label", "workloads", "-l", "app=web", "app=db", "tier-", "--overwrite"]).good();
    home.orrery(&["annotate", "workloads", "--all", "note=hi there"]).good();
    let dry = home.orrery(&["annotate", "wl/web", "note-", "--dry-run"]).good();
    assert_eq!(dry, "workload/web annotated (dry run)\n");
    let object = get(&home, "web");
    assert_eq!(object["metadata"]["labels"], serde_json::json!({"app": "db", "set": "a"}));
    assert_eq!(object["metadata"]["annotations"]["note"], "hi there");
    assert!(home.orrery(&["label", "workload/web"]).bad(1).contains("KEY=VALUE"));
    assert!(home.orrery(&["label", "workloads", "a=b"]).bad(1).contains("--all"));
    assert!(home.orrery(&["label", "workload/web", "a=*bad*"]).bad(1).contains("metadata.labels"));
}

#[test]
fn patches_change_some_fields() {
    let home = Home::new();
    let _up = home.up();
    apply(&home, "web", "a");
    home.orrery(&["patch", "workload", "web", "-p", r#"{"spec":{"restartPolicy":"never"}}"#])
        .good();
    let operations = r#"[{"op":"replace","path":"/spec/process/args/0","value":"61"}]"#;
    home.orrery(&["patch", "workload/web", "--type", "json", "-p", operations]).good();
    let spec = get(&home, "web")["spec"].clone();
    assert_eq!(
        (&spec["restartPolicy"], &spec["process"]["args"][0]),
        (&"never".into(), &"61".into())
    );
    let file = home.write("patch.yaml", "spec:\n  restartPolicy: always\n");
    let file = file.to_str().unwrap();
    home.orrery(&["patch", "workload", "web", "--patch-file", file, "--dry-run"]).good();
    assert_eq!(get(&home, "web")["spec"]["restartPolicy"], "never");
    let said = home.orrery(&["patch", "workload", "web", "-p", "spec: {restartPolicy: x}"]).bad(1);
    assert!(said.contains("spec.restartPolicy"), "{said}");
    let said = home.orrery(&["patch", "workload", "nope", "-p", "{}"]).bad(1);
    assert!(said.contains("not found"), "{said}");
}

#[test]
fn copies_are_scaled_where_a_kind_has_them() {
    let home = Home::new();
    let _up = home.up();
    let file = home.write(
        "web.yaml",
        "apiVersion: apps.orrery.dev/v1\nkind: Workload\nmetadata: {name: web, project: default}\n\
         spec: {process: {command: sleep, args: ['60']}, placement: {selector: {matchLabels: {zone: nowhere}}}}\n",
    );
    home.orrery(&["apply", "-f", file.to_str().unwrap()]).good();
    let said = home.orrery(&["scale", "workload", "web", "--replicas", "3"]).good();
    assert_eq!(said, "workload/web scaled\n");
    assert_eq!(get(&home, "web")["spec"]["placement"]["replicas"], 3);
    let again = home.orrery(&["scale", "workload/web", "--replicas", "3"]).good();
    assert_eq!(again, "workload/web unchanged\n");
    let wrong = ["scale", "workload/web", "--replicas", "5", "--current-replicas", "2"];
    assert!(home.orrery(&wrong).bad(1).contains("spec.placement.replicas is 3, not 2"));
    let dry = ["scale", "wl/web", "--replicas", "0", "--current-replicas", "3", "--dry-run"];
    assert_eq!(home.orrery(&dry).good(), "workload/web scaled (dry run)\n");
    assert_eq!(get(&home, "web")["spec"]["placement"]["replicas"], 3);
    let said = home.orrery(&["scale", "workload/web", "project/default", "--replicas", "1"]).bad(1);
    assert!(said.contains("project/default has no number of copies; machinedeployments"), "{said}");
    assert!(home.orrery(&["scale", "wl/web", "--replicas=-1"]).bad(2).contains("--replicas"));
}

#[test]
fn a_restart_replaces_the_process() {
    let home = Home::new();
    let _up = home.up();
    let declared = workload("web", "a").replace("nowhere", "local");
    let file = home.write("web.yaml", declared);
    home.orrery(&["apply", "-f", file.to_str().unwrap(), "--wait"]).good();
    let pid = |home: &Home| {
        let shown = home.orrery(&["get", "workloadinstances", "-o", "json"]).good();
        let list: Value = serde_json::from_str(&shown).unwrap();
        let status = list["items"][0]["status"].clone();
        (status["state"] == "Running").then(|| status["pid"].as_i64()).flatten()
    };
    let before = pid(&home).expect("it runs");
    assert_eq!(home.orrery(&["restart", "workload", "web"]).good(), "workload/web restarting\n");
    let after = until("another process", || pid(&home).filter(|pid| *pid != before));
    assert_ne!(before, after);
    // What was declared says nothing of it, so applying that again neither restarts nor takes it back.
    home.orrery(&["apply", "-f", file.to_str().unwrap()]).good();
    assert!(get(&home, "web")["spec"]["restartedAt"].is_string());
    let said = home.orrery(&["restart", "project", "default"]).bad(1);
    assert!(said.contains("project/default cannot be restarted; workloads can"), "{said}");
    let said = home.orrery(&["restart", "workload", "nope"]).bad(1);
    assert!(said.contains("not found"), "{said}");
}

fn edit(home: &Home, editor: &str) -> Done {
    let mut command = home.command(ORRERY);
    command.env("EDITOR", editor).args(["edit", "workload", "web"]);
    Done::from(command.output().unwrap())
}

#[test]
fn an_editor_changes_a_resource() {
    let home = Home::new();
    let _up = home.up();
    apply(&home, "web", "a");
    assert_eq!(edit(&home, "true").good(), "workload/web unchanged\n");
    assert_eq!(edit(&home, "sed -i s/always/never/").good(), "workload/web edited\n");
    assert_eq!(get(&home, "web")["spec"]["restartPolicy"], "never");
    // The first save is refused, the second one mends it after having seen why.
    let script = "#!/bin/sh\nif grep -q 'It was not stored' \"$1\"; then\n  grep -q '#   spec.restartPolicy' \
                  \"$1\" && sed -i 's/: bogus/: onFailure/' \"$1\"\nelse\n  sed -i 's/: never/: bogus/' \"$1\"\nfi\n";
    let script = home.write("editor.sh", script);
    assert_eq!(edit(&home, &format!("sh {}", script.display())).good(), "workload/web edited\n");
    assert_eq!(get(&home, "web")["spec"]["restartPolicy"], "onFailure");
    // Whoever gives up keeps the text.
    let said = edit(&home, "sed -i s/onFailure/bogus/").bad(1);
    let kept = said.trim_end().rsplit("kept in ").next().unwrap();
    assert!(std::fs::read_to_string(kept).unwrap().contains("restartPolicy: bogus"), "{said}");
    std::fs::remove_file(kept).unwrap();
    assert!(edit(&home, "false").bad(1).contains("the editor"));
}

#[test]
fn an_edit_and_another_change_meet() {
    let home = Home::new();
    let _up = home.up();
    apply(&home, "web", "a");
    // While the editor is open, somebody else sets a label; then both change the same field.
    let other = format!("{ORRERY} patch workload web -p");
    let script = format!(
        "{other} '{{\"metadata\":{{\"labels\":{{\"x\":\"1\"}}}}}}'\nsed -i 's/: always/: never/' \"$1\"\n"
    );
    let script = home.write("one.sh", script);
    assert_eq!(
        edit(&home, &format!("sh -eu {}", script.display())).good().lines().last(),
        Some("workload/web edited")
    );
    let object = get(&home, "web");
    assert_eq!(object["metadata"]["labels"]["x"], "1", "the other change stays");
    assert_eq!(object["spec"]["restartPolicy"], "never");
    let script = format!(
        "if grep -q 'somebody else changed spec.restartPolicy' \"$1\"; then sed -i '/^#/d' \"$1\"; exit; fi\n\
         {other} '{{\"spec\":{{\"restartPolicy\":\"onFailure\"}}}}'\nsed -i 's/: never/: always/' \"$1\"\n"
    );
    let script = home.write("two.sh", script);
    edit(&home, &format!("sh -eu {}", script.display())).good();
    assert_eq!(get(&home, "web")["spec"]["restartPolicy"], "always", "after the person agreed");
}

#[test]
fn diff_shows_what_apply_would_change() {
    let home = Home::new();
    let _up = home.up();
    let hello = ["diff", "-f", "examples/hello.yaml"];
    let fresh = home.orrery(&hello);
    assert!(fresh.out.contains("+++ applied/workload.hello.hello"), "{fresh:?}");
    assert_eq!(fresh.code, Some(1));
    home.orrery(&["apply", "-f", "examples/hello.yaml"]).good();
    assert_eq!(home.orrery(&hello).good(), "");
    home.orrery(&[
        "patch",
        "workload",
        "hello",
        "--project",
        "hello",
        "-p",
        "spec: {restartPolicy: never}",
    ])
    .good();
    let changed = home.orrery(&hello);
    assert_eq!(changed.code, Some(1));
    assert!(
        changed.out.contains("-  restartPolicy: never\n+  restartPolicy: always\n"),
        "{changed:?}"
    );
    let bad = home.write("bad.yaml", "kind: Nope\n");
    let refused = home.orrery(&["diff", "-f", bad.to_str().unwrap()]).bad(2);
    assert!(refused.contains("nothing was compared, because"), "{refused}");
    home.orrery(&["diff", "-f", "examples/hello.yaml", "--server", "http://127.0.0.1:1"]).bad(3);
}

#[test]
fn folders_are_applied_and_what_left_them_is_pruned() {
    let home = Home::new();
    let _up = home.up();
    let folder = home.path("folder");
    std::fs::create_dir_all(folder.join("deep")).unwrap();
    std::fs::write(folder.join("b.yaml"), workload("b", "mine")).unwrap();
    std::fs::write(folder.join("deep/a.yml"), workload("a", "mine")).unwrap();
    std::fs::write(folder.join("note.txt"), "not a resource").unwrap();
    let folder_text = folder.to_str().unwrap();
    let said = home.orrery(&["apply", "-f", folder_text]).good();
    assert_eq!(said, "workload/b created\nworkload/a created\n");
    apply(&home, "other", "theirs");
    // Carries the label, but apply did not write it.
    home.orrery(&["label", "workload", "other", "set=mine", "--overwrite"]).good();
    home.orrery(&["annotate", "workload", "other", "orrery.dev/applied-by-"]).good();
    std::fs::remove_file(folder.join("deep/a.yml")).unwrap();
    let prune = ["apply", "-f", folder_text, "--prune", "-l", "set=mine"];
    let dry = home.orrery(&[&prune[..], &["--dry-run"]].concat()).good();
    assert_eq!(dry, "workload/b unchanged (dry run)\nworkload/a pruned (dry run)\n");
    assert_eq!(names(&home), "workload/a\nworkload/b\nworkload/other\n");
    let said = home.orrery(&prune).good();
    assert_eq!(said, "workload/b unchanged\nworkload/a pruned\n");
    home.orrery(&["wait", "workload/a", "--for", "delete"]).good();
    assert_eq!(names(&home), "workload/b\nworkload/other\n");
    home.orrery(&["apply", "-f", folder_text, "--prune"]).bad(2);
}

#[test]
fn resources_are_deleted_by_label_and_all_at_once() {
    let home = Home::new();
    let _up = home.up();
    for (name, label) in [("a", "x"), ("b", "x"), ("c", "y"), ("d", "y")] {
        apply(&home, name, label);
    }
    assert!(home.orrery(&["delete", "workloads"]).bad(1).contains("--all"));
    let dry = home.orrery(&["delete", "workloads", "-l", "set=x", "--dry-run"]).good();
    assert_eq!(dry, "workload/a deleted (dry run)\nworkload/b deleted (dry run)\n");
    home.orrery(&["delete", "workloads", "-l", "set=x"]).good();
    assert_eq!(names(&home), "workload/c\nworkload/d\n");
    let said = home.orrery(&["delete", "workload/c", "workload/nope"]);
    assert_eq!((said.code, said.out.as_str()), (Some(1), "workload/c deleted\n"), "{said:?}");
    assert!(said.err.contains("nope"), "{said:?}");
    home.orrery(&["delete", "workloads", "--all", "--timeout", "60s"]).good();
    assert_eq!(names(&home), "");
}

/// Whoever declares something is not told that it is there when it is about to go.
#[test]
fn what_is_being_deleted_is_not_applied() {
    let home = Home::new();
    let _up = home.up();
    let held = |name: &str| {
        let text = "apiVersion: core.orrery.dev/v1\nkind: Project\nmetadata:\n  name: going\n  finalizers: [test.dev/hold]\n";
        let text = format!("{text}  annotations: {{version: '{name}'}}\n");
        home.write(&format!("{name}.yaml"), text).to_str().unwrap().to_owned()
    };
    home.orrery(&["apply", "-f", &held("first")]).good();
    home.orrery(&["delete", "project", "going", "--no-wait"]).good();
    let said = home.orrery(&["apply", "-f", &held("second")]).bad(1);
    assert!(said.contains("project/going is being deleted; wait until it is gone"), "{said}");
    home.orrery(&["patch", "project", "going", "-p", r#"{"metadata":{"finalizers":[]}}"#]).good();
    home.orrery(&["wait", "project/going", "--for", "delete"]).good();
    home.orrery(&["apply", "-f", &held("third")]).good();
}

/// A file that was saved from a server holds a revision and a uid; when these are gone, it is said what to do.
#[test]
fn a_file_of_an_object_that_is_gone_says_what_to_do() {
    let home = Home::new();
    let _up = home.up();
    let project = "apiVersion: core.orrery.dev/v1\nkind: Project\nmetadata: {name: saved}\n";
    let fresh = home.write("fresh.yaml", project);
    home.orrery(&["apply", "-f", fresh.to_str().unwrap()]).good();
    let saved = home.orrery(&["get", "project", "saved", "-o", "yaml"]).good();
    let saved = home.write("saved.yaml", saved);
    home.orrery(&["delete", "project", "saved"]).good();
    let said = home.orrery(&["apply", "-f", saved.to_str().unwrap()]).bad(1);
    assert!(said.contains("take resourceVersion and uid out of its metadata"), "{said}");
}

/// Many are on their way at once; what is said keeps the order of the file, projects come first, and
/// what is refused is said for each without keeping back the rest.
#[test]
fn many_resources_are_applied_side_by_side() {
    let home = Home::new();
    let _up = home.up();
    let place = |text: String| text.replace("project: default", "project: late");
    let mut file: Vec<String> =
        (0..150).map(|n| place(workload(&format!("w{n:03}"), "many"))).collect();
    for (at, n) in [(40, 0), (90, 1)] {
        let lost =
            workload(&format!("lost{n}"), "many").replace("project: default", "project: lost");
        file.insert(at, lost);
    }
    // Twice the same: the last one stays.
    file.push(place(workload("w000", "last")));
    file.push("apiVersion: core.orrery.dev/v1\nkind: Project\nmetadata: {name: late}\n".to_owned());
    let file = home.write("many.yaml", file.join("---\n"));
    let done = home.orrery(&["apply", "-f", file.to_str().unwrap()]);
    let lines: Vec<String> = done.out.lines().map(str::to_owned).collect();
    assert_eq!(lines[0], "project/late created");
    let expected = (0..150).map(|n| format!("workload/w{n:03} created"));
    let expected: Vec<String> = expected.chain(["workload/w000 changed".to_owned()]).collect();
    assert_eq!(lines[1..], expected);
    let said = done.bad(1);
    for name in ["lost0", "lost1"] {
        assert!(
            said.contains(&format!("apply workload/{name}: project \"lost\" not found")),
            "{said}"
        );
    }
    let first = home.orrery(&["get", "workload", "w000", "-p", "late", "-o", "json"]).good();
    assert!(first.contains("\"set\": \"last\""), "{first}");
    let again = home.orrery(&["apply", "-f", file.to_str().unwrap(), "--dry-run"]);
    assert!(again.out.contains("w149 unchanged (dry run)"), "{}{}", again.out, again.err);
}
