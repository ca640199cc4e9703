//! Bad input: a clear error each, nothing stored, nothing crashed.
use crate::harness::Home;

const WORKLOAD: &str = "apiVersion: apps.orrery.dev/v1
kind: Workload
metadata:
  name: web
  project: default
spec:
  process:
    command: sleep
    args: [\"60\"]
  placement:
    nodes: [local]
";

struct Case {
    what: &'static str,
    file: Vec<u8>,
    said: &'static [&'static str],
}

fn case(what: &'static str, file: impl Into<Vec<u8>>, said: &'static [&'static str]) -> Case {
    Case { what, file: file.into(), said }
}

fn cases() -> Vec<Case> {
    let deep = format!("{WORKLOAD}  x: {}{}", "[".repeat(200), "]".repeat(200));
    let large = WORKLOAD.replace("\"60\"", &format!("\"{}\"", "x".repeat(2 << 20)));
    vec![
        case("broken YAML", "kind: [\n", &["bad.yaml:"]),
        case("bad UTF-8", b"kind: \xff\xfe\n".to_vec(), &["bad.yaml", "UTF-8"]),
        case("a duplicate key", format!("{WORKLOAD}kind: Project\n"), &["bad.yaml:12:", "kind"]),
        case("too deep", deep, &["bad.yaml", "deep"]),
        case("too large", large, &["bad.yaml", "large"]),
        case("no resource", "# nothing\n", &["no resource"]),
        case("not a resource", "- 1\n- 2\n", &["bad.yaml:1"]),
        case("an unknown kind", WORKLOAD.replace("Workload", "Wrkload"), &["Wrkload", "Workload"]),
        case("an unknown version", WORKLOAD.replace("dev/v1", "dev/v7"), &["v7"]),
        case("no project", WORKLOAD.replace("  project: default\n", ""), &["metadata.project"]),
        case("no name", WORKLOAD.replace("  name: web\n", ""), &["metadata.name"]),
        case("a bad name", WORKLOAD.replace("web", "Web_1"), &["bad.yaml:4:", "metadata.name"]),
        case(
            "a wrong type",
            WORKLOAD.replace("[\"60\"]", "60"),
            &["bad.yaml:9:", "spec.process.args"],
        ),
        case(
            "an unknown field",
            WORKLOAD.replace("args", "arggs"),
            &["bad.yaml:9:", "spec.process.arggs", "did you mean \"args\""],
        ),
        case(
            "a value that is not allowed",
            format!("{WORKLOAD}  restartPolicy: sometimes\n"),
            &["bad.yaml:12:", "spec.restartPolicy", "onFailure"],
        ),
        case(
            "a missing field",
            WORKLOAD.replace("    command: sleep\n", ""),
            &["spec.process.command"],
        ),
        case(
            "three mistakes at once",
            WORKLOAD.replace("command:", "comand:").replace("[local]", "[]"),
            &["spec.process.comand", "spec.process.command", "spec.placement.nodes"],
        ),
    ]
}

#[test]
fn each_mistake_is_said_with_its_place_and_nothing_is_stored() {
    let home = Home::new();
    let _up = home.up();
    for Case { what, file, said } in cases() {
        // A good resource stands before the bad one: it must not be stored either.
        let good = home.write("good.yaml", WORKLOAD.replace("web", "good"));
        let bad = home.write("bad.yaml", file);
        let files = [good.to_str().unwrap(), bad.to_str().unwrap()];
        let error = home.orrery(&["apply", "-f", files[0], "-f", files[1]]).bad(1);
        for word in said {
            assert!(error.contains(word), "{what}: {word:?} is not in: {error}");
        }
        assert!(!error.contains("panicked"), "{what}: {error}");
        let stored = home.orrery(&["get", "workloads", "-A", "-o", "name"]).good();
        assert_eq!(stored, "", "{what}: nothing is stored");
    }
}

#[test]
fn what_only_the_server_can_know_is_said_with_its_place_too() {
    let home = Home::new();
    let _up = home.up();
    let file = home.write("w.yaml", WORKLOAD.replace("project: default", "project: nowhere"));
    let said = home.orrery(&["apply", "-f", file.to_str().unwrap()]).bad(1);
    assert!(said.contains("project \"nowhere\" not found"), "{said}");
    let instance = WORKLOAD.replace("kind: Workload", "kind: WorkloadInstance");
    let instance =
        instance.replace("  placement:\n    nodes: [local]\n", "  workload: web\n  node: local\n");
    let file = home.write("i.yaml", instance);
    let said = home.orrery(&["apply", "-f", file.to_str().unwrap()]).bad(1);
    assert!(said.contains("written by the server only"), "{said}");
    let said = home.orrery(&["delete", "project", "system"]).bad(1);
    assert!(said.contains("stays"), "{said}");
    let said = home.orrery(&["get", "wrkloads"]).bad(1);
    assert!(said.contains("wrkloads") && said.contains("workloads"), "{said}");
    let said = home.orrery(&["apply", "-f", "no-such-file.yaml"]).bad(1);
    assert!(said.contains("no-such-file.yaml"), "{said}");
}
