//! Machines as a person uses them: a server, the real process driver, agents inside the machines.
use crate::harness::{Home, ORRERY, Process, Up, until};
use crate::tls::{authority, identity, with};
use orrery_pki::Role;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

/// A server with the process driver beside it.
pub struct Installation {
    pub home: Home,
    up: Up,
    listen: [String; 2],
    _driver: Process,
}

/// What a failed test leaves behind.
impl Drop for Installation {
    fn drop(&mut self) {
        for id in machine_folders(&self.home) {
            let script = format!(
                "for n in $(ip netns list | grep -o 'orrery-[0-9a-f]*-{id}'); do \
                 kill -9 $(ip netns pids $n); ip netns del $n; done"
            );
            let _ = Command::new("sh").args(["-c", &script]).status();
        }
    }
}

pub fn machine_folders(home: &Home) -> Vec<String> {
    let all = std::fs::read_dir(home.path("machines")).into_iter().flatten().flatten();
    let machines = all.filter(|entry| entry.path().join("machine.json").exists());
    machines.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// A port that is free now. Somebody else may take it, but nobody on this machine looks for one there.
fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Installation {
    pub fn start() -> Self {
        let home = Home::new();
        let listen = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
        let up = Self::up(&home, &listen);
        let driver = Self::driver(&home, &listen);
        Self { home, up, listen, _driver: driver }
    }

    /// Ends the server as a power cut would, and starts it again.
    pub fn restart(&mut self) {
        self.up.kill();
        self.up = Self::up(&self.home, &self.listen);
    }

    fn up(home: &Home, [listen, drivers]: &[String; 2]) -> Up {
        home.start(&["up", "--listen", listen, "--drivers-listen", drivers])
    }

    fn driver(home: &Home, [listen, drivers]: &[String; 2]) -> Process {
        // Each test its own network: the process id is different for each.
        let [.., b, c] = std::process::id().to_be_bytes();
        let mut command = home.command(ORRERY);
        command.args(["driver", "process", "--server", drivers, "--subnet"]);
        command.arg(format!("10.{b}.{c}.0"));
        command.args(["--agent-server", &format!("http://{listen}"), "--data-dir"]);
        command.arg(home.path("machines")).stderr(Stdio::null());
        Process(command.spawn().unwrap())
    }

    fn list(&self, kind: &str) -> Vec<Value> {
        self.list_in("machines", kind)
    }

    pub fn list_in(&self, project: &str, kind: &str) -> Vec<Value> {
        let list = self.home.orrery(&["get", kind, "-p", project, "-o", "json"]).good();
        let list: Value = serde_json::from_str(&list).unwrap();
        list["items"].as_array().unwrap().clone()
    }

    fn deployment(&self) -> Value {
        self.list("machinedeployments").remove(0)
    }

    /// The names of all machines, once there are so many, all of them run and the rollout is complete.
    fn settled(&self, count: u64) -> BTreeSet<String> {
        until(&format!("{count} machines run"), || {
            let deployment = self.deployment();
            let (generation, status) =
                (&deployment["metadata"]["generation"], &deployment["status"]);
            let complete = status["state"] == "Complete"
                && status["observedGeneration"] == *generation
                && status["available"] == count;
            let machines = self.list("machines");
            let run = machines.iter().all(|it| it["status"]["phase"] == "Running");
            (complete && run).then(|| names(&machines))
        })
    }

    fn patch(&self, what: &str, patch: &str) {
        let arguments = ["patch", what, "--project", "machines", "--patch", patch];
        self.home.orrery(&arguments).good();
    }

    fn revision(&self) -> u64 {
        let sets = self.list("machinesets");
        sets.iter().filter_map(|set| set["spec"]["revision"].as_u64()).max().unwrap()
    }
}

fn names(objects: &[Value]) -> BTreeSet<String> {
    objects.iter().map(|it| it["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

/// proves: MCH-01, MCH-02, MCH-03, MCH-07
#[test]
fn machines_come_up_roll_move_their_workloads_and_go() {
    let world = Installation::start();
    let home = &world.home;
    home.orrery(&["apply", "-f", "examples/machines.yaml"]).good();
    let first = world.settled(3);
    assert_eq!(first.len(), 3);
    for node in world.list("nodes").iter().filter(|it| it["metadata"]["name"] != "local") {
        let (name, labels) = (&node["metadata"]["name"], &node["metadata"]["labels"]);
        assert_eq!(
            (&labels["machines.orrery.dev/machine"], &labels["pool"]),
            (name, &"web".into())
        );
    }
    let copies = |of: &BTreeSet<String>| {
        until("the workload runs on these machines", || {
            let copies = world.list("workloadinstances");
            let good = |it: &Value| {
                let node = it["spec"]["node"].as_str().unwrap();
                it["status"]["state"] == "Running" && of.contains(node)
            };
            (copies.len() == 2 && copies.iter().all(good)).then_some(())
        });
    };
    copies(&first);

    world.patch("machineclass/small", r#"{"spec":{"providerSpec":{"env":{"SIZE":"large"}}}}"#);
    until("the rollout begins", || (world.revision() == 2).then_some(()));
    let second = world.settled(3);
    assert!(first.is_disjoint(&second), "all are exchanged: {first:?} {second:?}");
    copies(&second);

    world.patch("machinedeployment/pool", r#"{"spec":{"rollbackTo":{}}}"#);
    until("it goes back", || (world.revision() == 3).then_some(()));
    let third = world.settled(3);
    assert!(second.is_disjoint(&third), "{second:?} {third:?}");
    let told = home.orrery(&["describe", "machinedeployment", "pool", "-p", "machines"]).good();
    for reason in ["RolledBack", "NewRevision", "RollingUpdate", "Pinned"] {
        assert!(told.contains(reason), "{reason} is not in:\n{told}");
    }
    copies(&third);

    home.orrery(&["delete", "-f", "examples/machines.yaml"]).good();
    assert_eq!(machine_folders(home), Vec::<String>::new());
    let nodes = home.orrery(&["get", "nodes", "-o", "name"]).good();
    assert_eq!(nodes, "node/local\n", "nodes go with their machines");
}

/// proves: MCH-07
#[test]
fn a_machine_that_dies_is_replaced_and_a_frozen_one_is_not() {
    let world = Installation::start();
    let home = &world.home;
    home.orrery(&["apply", "-f", "examples/machines.yaml"]).good();
    let first = world.settled(3);
    world.patch(
        "machinedeployment/pool",
        r#"{"spec":{"template":{"timeouts":{"healthSeconds":1,"drainSeconds":1}}}}"#,
    );
    let victim = world.list("machines").remove(0);
    kill(&victim);
    let name = victim["metadata"]["name"].as_str().unwrap().to_owned();
    until("it is replaced", || (!names(&world.list("machines")).contains(&name)).then_some(()));
    let second = world.settled(3);
    assert_eq!(first.intersection(&second).count(), 2, "one is new");
    let told =
        home.orrery(&["events", "-p", "machines", "--for", &format!("machine/{name}")]).good();
    let at = |reason: &str| {
        told.find(&format!(" {reason} ")).unwrap_or_else(|| panic!("{reason} is not in:\n{told}"))
    };
    let reasons = ["Created", "Joined", "AgentLost", "Unhealthy", "Deleting", "Deleted"];
    assert!(reasons.is_sorted_by_key(|reason| at(reason)), "they are told in their order:\n{told}");
    assert!(told.contains("Replaced"), "{told}");

    home.orrery(&["annotate", "project", "machines", "machines.orrery.dev/frozen=true"]).good();
    world.patch("machinedeployment/pool", r#"{"spec":{"replicas":4}}"#);
    until("it says that it is frozen", || {
        (world.deployment()["status"]["state"] == "Frozen").then_some(())
    });
    assert_eq!(names(&world.list("machines")), second);
    home.orrery(&["annotate", "project", "machines", "machines.orrery.dev/frozen-"]).good();
    world.settled(4);
    world.patch("machinedeployment/pool", r#"{"spec":{"replicas":1}}"#);
    world.settled(1);

    // A class in use is not deleted before what uses it.
    let mut deleting = home.command(ORRERY);
    deleting.args(["delete", "machineclass", "small", "-p", "machines"]);
    let mut deleting = Process(deleting.stdout(Stdio::null()).spawn().unwrap());
    until("its deletion waits", || {
        let class = world.list("machineclasses").remove(0);
        let said = class["status"]["conditions"][0]["message"].as_str()?;
        said.contains("machinedeployment/pool").then_some(())
    });
    home.orrery(&["delete", "-f", "examples/machines.yaml"]).good();
    until("the first deletion ends too", || deleting.0.try_wait().unwrap());
}

/// Ends every process of a machine, as a power cut would.
fn kill(machine: &Value) {
    let id = machine["status"]["providerId"].as_str().unwrap();
    let id = id.strip_prefix("process:///").unwrap();
    let pids = format!("ip netns pids $(ip netns list | grep -o 'orrery-[0-9a-f]*-{id}')");
    // One that ends by itself in between is no failure.
    until("all of its processes have ended", || {
        let found = Command::new("sh").args(["-c", &pids]).output().unwrap();
        assert!(found.status.success(), "{found:?}");
        let found = String::from_utf8(found.stdout).unwrap();
        let found: Vec<&str> = found.split_whitespace().collect();
        if found.is_empty() {
            return Some(());
        }
        Command::new("kill").arg("-9").args(found).stderr(Stdio::null()).status().unwrap();
        None
    });
}

/// proves: MCH-07
#[test]
fn a_rollout_goes_on_after_the_server_was_killed_in_the_middle() {
    let mut world = Installation::start();
    world.home.orrery(&["apply", "-f", "examples/machines.yaml"]).good();
    let first = world.settled(3);
    world.patch("machineclass/small", r#"{"spec":{"providerSpec":{"env":{"SIZE":"large"}}}}"#);
    until("the first of the new ones is made", || {
        names(&world.list("machines")).difference(&first).next().map(|_| ())
    });
    world.restart();
    let second = world.settled(3);
    assert!(first.is_disjoint(&second), "{first:?} {second:?}");
    assert_eq!(machine_folders(&world.home).len(), 3, "the provider has no more of them");
    world.home.orrery(&["delete", "-f", "examples/machines.yaml"]).good();
    assert_eq!(machine_folders(&world.home), Vec::<String>::new());
}

#[test]
fn where_drivers_register_can_be_chosen() {
    let home = Home::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let refused = home.orrery(&["up", "--listen", "127.0.0.1:0", "--drivers-listen", &address]);
    assert!(refused.bad(1).contains(&address), "it says which address is taken");
    let refused = home.orrery(&["up", "--listen", "127.0.0.1:0", "--drivers-listen", "0.0.0.0:0"]);
    assert!(refused.bad(1).contains("--drivers-listen"), "plain on loopback only");
    let refused = home.orrery(&["up", "--drivers-listen", "everywhere"]).bad(2);
    assert!(refused.contains("or off"), "{refused}");
    let up = home.start(&["up", "--listen", "127.0.0.1:0", "--drivers-listen", "off"]);
    drop(up);
}

/// proves: MCH-04
#[test]
fn with_certificates_only_drivers_register() {
    let home = Home::new();
    let authority = authority();
    let drivers = format!("127.0.0.1:{}", free_port());
    let mut server = identity(&authority, &home, Role::Server, "s1");
    server.extend(["--drivers-listen".to_owned(), drivers.clone()]);
    let (_server, url) = home.server("data", &server);
    let user = identity(&authority, &home, Role::User, "alice");
    let driver = |role, name: &str| {
        let tls = identity(&authority, &home, role, name);
        let mut command = home.command(ORRERY);
        command.args(with(&["driver", "aws", "--server", &drivers], &tls));
        Process(command.stderr(Stdio::piped()).spawn().unwrap())
    };
    let mut stranger = driver(Role::Agent, "a1");
    let said = BufReader::new(stranger.0.stderr.take().unwrap()).lines();
    let said = said.map_while(Result::ok).find(|line| line.contains("is no driver"));
    assert!(said.is_some(), "it is told why");
    let mut known = driver(Role::Driver, "d1");
    let mut stderr = known.0.stderr.take().unwrap();
    // Nobody reads on; a full pipe must not stop it.
    std::thread::spawn(move || std::io::copy(&mut stderr, &mut std::io::sink()));
    let get = with(&["get", "drivers", "--server", &url], &user);
    until("the driver is shown with its certificate", || {
        let shown = home.orrery(&get).good();
        (shown.contains("Active") && shown.contains("spiffe://test.local/driver/d1")).then_some(())
    });
    assert!(!home.orrery(&get).good().contains("agent/a1"));
}

/// The whole way with certificates: the machines' agents join with tokens of their own.
///
/// proves: MCH-04, MCH-07
#[test]
fn agents_of_machines_join_with_tokens_of_their_own() {
    let home = Home::new();
    let folder = |name: &str| home.path(name).display().to_string();
    home.orrery(&["pki", "init", "--dir", &folder("ca")]).good();
    let issue = ["pki", "issue", "--dir", &folder("ca"), "--role", "driver", "--name", "d1"];
    let issued = home.orrery(&[&issue[..], &["--out", &folder("d1")]].concat()).good();
    let [listen, drivers] = [free_port(), free_port()].map(|port| format!("127.0.0.1:{port}"));
    let (ca, key) = (folder("ca/ca.pem"), folder("ca/ca-key.pem"));
    let up = ["up", "--listen", &listen, "--drivers-listen", &drivers, "--tls"];
    let up = home.start(&[&up[..], &["--authority", &ca, "--authority-key", &key]].concat());
    let [.., b, c] = std::process::id().to_be_bytes();
    let mut command = home.command(ORRERY);
    command.args(["driver", "process", "--server", &drivers, "--subnet"]);
    command.arg(format!("10.{b}.{c}.0")).args(issued.split_whitespace());
    command.args(["--agent-server", &format!("https://{listen}"), "--data-dir"]);
    let driver = command.arg(home.path("machines")).stderr(Stdio::null()).spawn().unwrap();
    let world = Installation { home, up, listen: [listen, drivers], _driver: Process(driver) };
    world.home.orrery(&["apply", "-f", "examples/machines.yaml"]).good();
    world.settled(3);
    let tokens = world.list("jointokens");
    assert!(tokens.iter().all(|token| token["status"]["used"] == 1), "{tokens:?}");
    assert_eq!(tokens.len(), 3, "each has its own");
    world.home.orrery(&["delete", "-f", "examples/machines.yaml"]).good();
    assert_eq!(world.list("jointokens"), Vec::<Value>::new(), "tokens go with their machines");
    assert_eq!(machine_folders(&world.home), Vec::<String>::new());
}
