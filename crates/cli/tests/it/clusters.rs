//! Clusters as a platform engineer uses them: real machines of the process driver, real agents, addons that run.
use crate::harness::until;
use crate::machines::{Installation, machine_folders};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::PathBuf;

const PROJECT: &str = "clusters";

struct World {
    all: Installation,
    /// Where addons leave a mark when they run, and look for a word to go on.
    marks: PathBuf,
}

impl World {
    fn start() -> Self {
        let all = Installation::start();
        let marks = all.home.path("marks");
        std::fs::create_dir(&marks).unwrap();
        let world = Self { all, marks };
        world.apply(&[json!({
            "apiVersion": "core.orrery.dev/v1", "kind": "Project", "metadata": {"name": PROJECT},
        })]);
        world
    }

    fn apply(&self, objects: &[Value]) {
        let text: Vec<String> = objects.iter().map(ToString::to_string).collect();
        let file = self.all.home.write("cluster.yaml", text.join("\n---\n"));
        self.all.home.orrery(&["apply", "-f", &file.display().to_string()]).good();
    }

    fn patch(&self, patch: &str) {
        let arguments = ["patch", "cluster", "edge", "--project", PROJECT, "--patch", patch];
        self.all.home.orrery(&arguments).good();
    }

    fn cluster(&self) -> Value {
        self.all.list_in(PROJECT, "clusters").remove(0)
    }

    fn status(&self, cluster: &Value, field: &str) -> String {
        cluster["status"][field].as_str().unwrap_or_default().to_owned()
    }

    /// The cluster, once it is ready with what was asked for last.
    fn ready(&self) -> Value {
        let arguments = ["cluster/edge", "-p", PROJECT, "--for", "condition=Ready"];
        let wait = [&["wait"], &arguments[..], &["--timeout", "60s"]].concat();
        let waited = self.all.home.orrery(&wait);
        assert_eq!(waited.code, Some(0), "not ready: {:#}", self.cluster()["status"]);
        self.cluster()
    }

    /// On which nodes an addon has left this mark.
    fn marked(&self, mark: &str) -> BTreeSet<String> {
        let all = std::fs::read_dir(&self.marks).unwrap().flatten();
        let names = all.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.filter_map(|name| Some(name.strip_suffix(mark)?.to_owned())).collect()
    }

    fn forget(&self, mark: &str) {
        for node in self.marked(mark) {
            std::fs::remove_file(self.marks.join(format!("{node}{mark}"))).unwrap();
        }
    }

    /// The nodes of the cluster's machines.
    fn nodes(&self) -> BTreeSet<String> {
        let machines = self.all.list_in(PROJECT, "machines");
        let node = |it: &Value| it["status"]["node"].as_str().map(str::to_owned);
        machines.iter().filter_map(node).collect()
    }

    fn has_workload(&self, name: &str) -> bool {
        let workloads = self.all.list_in(PROJECT, "workloads");
        workloads.iter().any(|it| it["metadata"]["name"] == name)
    }

    /// Waits until an addon is in this state on the cluster.
    fn until_addon(&self, number: usize, state: &str) -> Value {
        until(&format!("addon {number} is {state}"), || {
            let addon = self.cluster()["status"]["addons"][number].clone();
            (addon["state"] == state).then_some(addon)
        })
    }

    /// An addon that leaves a mark on each node, and waits for a word first if it is told to.
    fn addon(&self, name: &str, version: &str, script: &str) -> Value {
        let marks = self.marks.display();
        let script = format!(
            "cd {marks} && {script} && touch $ORRERY_NODE.{name}-{version} && exec sleep 600"
        );
        let probe = format!("test -f {marks}/$ORRERY_NODE.{name}-{version}");
        json!({
            "apiVersion": "infra.orrery.dev/v1", "kind": "Addon",
            "metadata": {"name": name, "project": PROJECT},
            "spec": {"version": version, "template": {
                "process": {"command": "/bin/sh", "args": ["-c", script]},
                "readinessProbe": {"exec": {"command": ["/bin/sh", "-c", probe]}, "periodSeconds": 1},
                "stopGraceSeconds": 1,
            }},
        })
    }
}

fn blueprint(addons: &Value) -> Value {
    json!({
        "apiVersion": "infra.orrery.dev/v1", "kind": "Blueprint",
        "metadata": {"name": "base", "project": PROJECT},
        "spec": {"addons": addons},
    })
}

fn cluster(replicas: u32, env: &str) -> Value {
    json!({
        "apiVersion": "infra.orrery.dev/v1", "kind": "Cluster",
        "metadata": {"name": "edge", "project": PROJECT},
        "spec": {
            "process": {"env": {"SITE": env}},
            "pools": [{"name": "workers", "replicas": replicas, "timeouts": {"drainSeconds": 5}}],
            "blueprint": "base",
        },
    })
}

/// The second addon says if it runs where the first has not been ready.
const AFTER_FIRST: &str = "(test -f $ORRERY_NODE.first-1.0 || touch $ORRERY_NODE.violation)";

/// proves: HUB-12, HUB-13, MCH-07
#[test]
fn a_cluster_has_its_machines_and_addons_in_their_order() {
    let world = World::start();
    let go = world.marks.join("go");
    let first = world.addon("first", "1.0", "(until test -f go; do sleep 0.1; done)");
    let second = world.addon("second", "1.0", AFTER_FIRST);
    let both = blueprint(&json!([{"name": "first"}, {"name": "second"}]));
    world.apply(&[first, second, both, cluster(2, "a")]);

    let waits = world.until_addon(1, "Waiting");
    assert!(waits["message"].as_str().unwrap().contains("\"first\" is ready"), "{waits}");
    world.until_addon(0, "Progressing");
    assert!(!world.has_workload("edge-second"), "the first is not ready");
    std::fs::write(&go, "").unwrap();
    let ready = world.ready();
    assert_eq!(world.status(&ready, "machines"), "2/2");
    assert_eq!(world.status(&ready, "addonsReady"), "2/2");
    assert_eq!(ready["status"]["progress"], 100);
    let nodes = world.nodes();
    assert_eq!(nodes.len(), 2);
    assert_eq!(world.marked(".second-1.0"), nodes);
    assert_eq!(world.marked(".violation"), BTreeSet::new());
    let table = world.all.home.orrery(&["get", "clusters", "-p", PROJECT]).good();
    for word in ["STATE", "MACHINES", "ADDONS", "BLUEPRINT", "Ready", "process", "2/2", "base"] {
        assert!(table.contains(word), "{word} is not in:\n{table}");
    }

    // A machine that joins later has them in their order, too.
    std::fs::remove_file(&go).unwrap();
    world.apply(&[cluster(3, "a")]);
    until("the new machine has the first addon, which is not ready", || {
        let first = world.cluster()["status"]["addons"][0].clone();
        (first["wanted"] == 3 && first["running"] == 2).then_some(())
    });
    assert_eq!(world.marked(".second-1.0"), nodes, "the new machine does not have the second");
    std::fs::write(&go, "").unwrap();
    let ready = world.ready();
    assert_eq!(world.status(&ready, "machines"), "3/3");
    assert_eq!(world.marked(".second-1.0"), world.nodes());
    assert_eq!(world.marked(".violation"), BTreeSet::new());

    versions_roll(&world);
    everything_goes(&world);
}

/// Versions follow the addon, or what the blueprint names; what was never kept is said and changes nothing.
fn versions_roll(world: &World) {
    world.apply(&[world.addon("second", "2.0", AFTER_FIRST)]);
    until("the second addon is at 2.0", || {
        (world.marked(".second-2.0") == world.nodes()).then_some(())
    });
    let second = world.ready()["status"]["addons"][1].clone();
    assert_eq!((&second["version"], &second["running"]), (&json!("2.0"), &json!(3)));

    world.forget(".second-1.0");
    world.apply(&[blueprint(&json!([{"name": "first"}, {"name": "second", "version": "1.0"}]))]);
    until("the second addon is at 1.0 again", || {
        (world.marked(".second-1.0") == world.nodes()).then_some(())
    });
    assert_eq!(world.ready()["status"]["addons"][1]["version"], "1.0");

    world.apply(&[blueprint(&json!([{"name": "second", "version": "9"}, {"name": "third"}]))]);
    let said = until("the blueprint says what is missing", || {
        let blueprint = world.all.list_in(PROJECT, "blueprints").remove(0);
        let said = blueprint["status"]["message"].as_str().unwrap_or_default().to_owned();
        said.contains("third").then_some(said)
    });
    assert!(said.contains("has no version \"9\"; it has 2.0, 1.0"), "{said}");
    let failing = world.until_addon(0, "Failing");
    assert_eq!(failing["version"], "1.0", "what runs goes on");
    until("the cluster says so", || {
        (world.status(&world.cluster(), "state") == "Failing").then_some(())
    });

    world.apply(&[blueprint(&json!([{"name": "second"}]))]);
    let ready = until("only the second addon is left", || {
        let cluster = world.cluster();
        let addons = cluster["status"]["addons"].as_array().unwrap().len();
        (addons == 1 && cluster["status"]["state"] == "Ready").then_some(cluster)
    });
    assert_eq!(ready["status"]["addons"][0]["version"], "2.0", "it follows the latest again");
    assert!(!world.has_workload("edge-first"));
}

/// What is in use waits; a cluster takes everything along.
fn everything_goes(world: &World) {
    let home = &world.all.home;
    let delete = |what: &str| home.orrery(&["delete", what, "-p", PROJECT, "--no-wait"]).good();
    delete("blueprint/base");
    delete("addon/second");
    until("the blueprint says who has it", || {
        let blueprint = world.all.list_in(PROJECT, "blueprints").remove(0);
        let conditions = blueprint["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let used = conditions.iter().find(|it| it["type"] == "InUse")?;
        used["message"].as_str()?.contains("cluster/edge").then_some(())
    });
    assert_eq!(world.ready()["status"]["addons"][0]["state"], "Ready", "it goes on");
    home.orrery(&["delete", "cluster/edge", "-p", PROJECT, "--timeout", "60s"]).good();
    for kind in ["machines", "machinesets", "machinedeployments", "workloads", "workloadinstances"]
    {
        assert_eq!(world.all.list_in(PROJECT, kind), Vec::<Value>::new(), "{kind}");
    }
    until("the blueprint, the addon and the class are let go", || {
        let left = |kind: &str| world.all.list_in(PROJECT, kind).len();
        (left("blueprints") + left("machineclasses") == 0 && left("addons") == 1).then_some(())
    });
    assert_eq!(machine_folders(home), Vec::<String>::new());
    assert_eq!(home.orrery(&["get", "nodes", "-o", "name"]).good(), "node/local\n");
    let told = home.orrery(&["events", "-p", PROJECT, "--for", "cluster/edge"]).good();
    for word in [
        "PoolCreated",
        "AddonCreated",
        "AddonChanged",
        "AddonRemoved",
        "PoolRemoved",
        "edge-workers",
    ] {
        assert!(told.contains(word), "{word} is not in:\n{told}");
    }
}

/// A class that changes exchanges the machines, also while the server is killed, and the new ones have the addons before
/// the cluster is ready again; a pool that leaves the spec goes, and a cluster of the example file goes with its project.
#[test]
fn a_cluster_follows_its_spec() {
    let mut world = World::start();
    world.all.home.orrery(&["apply", "-f", "examples/clusters.yaml"]).good();
    world.ready();
    let first = world.nodes();
    world.patch(r#"{"spec":{"process":{"env":{"SITE":"moved"}}}}"#);
    until("the first of the new machines is made", || {
        world.nodes().difference(&first).next().map(|_| ())
    });
    world.all.restart();
    let ready = world.ready();
    let home = &world.all.home;
    assert!(first.is_disjoint(&world.nodes()), "all machines are exchanged");
    assert_eq!(ready["status"]["addons"][1]["running"], 2);

    // An addon between two others: the last one is not restarted for it.
    let copies = || -> BTreeSet<String> {
        let all = world.all.list_in(PROJECT, "workloadinstances");
        let greets = |it: &&Value| it["spec"]["workload"] == "edge-greeter";
        let state = |it: &Value| format!("{} {}", it["metadata"]["uid"], it["status"]["pid"]);
        all.iter().filter(greets).map(state).collect()
    };
    let before = copies();
    let between = world.addon("between", "1.0", "true");
    let three = json!([{"name": "clock"}, {"name": "between"}, {"name": "greeter"}]);
    world.apply(&[between, blueprint(&three)]);
    until("all three are there", || {
        let status = world.cluster()["status"].clone();
        (status["addonsReady"] == "3/3" && status["state"] == "Ready").then_some(())
    });
    assert_eq!(copies(), before);

    world.patch(
        r#"{"spec":{"pools":[{"name":"large","replicas":1,"process":{"env":{"SIZE":"large"}}}]}}"#,
    );
    let ready = world.ready();
    let pools = ready["status"]["pools"].as_array().unwrap();
    assert_eq!((pools.len(), &pools[0]["deployment"]), (1, &json!("edge-large")));
    let class = world.all.list_in(PROJECT, "machineclasses");
    assert_eq!(class.len(), 1, "{class:?}");
    let env = &class[0]["spec"]["providerSpec"]["env"];
    assert_eq!(env, &json!({"SITE": "moved", "SIZE": "large"}), "both say something");

    // Fields that the cluster says nothing about are others'; those that it declares are not.
    let deployment = ["patch", "machinedeployment", "edge-large", "--project", PROJECT, "--patch"];
    home.orrery(&[&deployment[..], &[r#"{"spec":{"replicas":5,"frozen":true}}"#]].concat()).good();
    until("the number of machines is the cluster's again", || {
        let spec = world.all.list_in(PROJECT, "machinedeployments")[0]["spec"].clone();
        (spec["replicas"] == 1 && spec["frozen"] == true).then_some(())
    });
    home.orrery(&[&deployment[..], &[r#"{"spec":{"frozen":false}}"#]].concat()).good();
    world.ready();
    // Machines that go while their agents join leave no nodes behind.
    for replicas in [4, 1] {
        let pools = json!({"spec": {"pools": [{"name": "large", "replicas": replicas}]}});
        world.patch(&pools.to_string());
    }
    world.ready();
    home.orrery(&["delete", "-f", "examples/clusters.yaml"]).good();
    assert_eq!(machine_folders(home), Vec::<String>::new());
    assert_eq!(home.orrery(&["get", "nodes", "-o", "name"]).good(), "node/local\n");
}
