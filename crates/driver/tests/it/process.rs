//! The process driver, for real: namespaces, addresses, processes. Needs root, `ip`, `unshare`, `flock`,
//! and `python3` as something that listens.
use orrery_driver::process::{Options, Process};
use orrery_driver::{
    Class, DataProvider, Driver, ErrorCode, Machine, MachineState, Request, Secret, SecretRef,
};
use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpStream;

const CLASS: &str = "/apis/infra/v1/namespaces/shop/processmachines/small";

struct World {
    root: TempDir,
    data: DataProvider,
}

/// What a failed test leaves behind.
impl Drop for World {
    fn drop(&mut self) {
        let run = |command: &str| std::process::Command::new("sh").args(["-c", command]).status();
        for entry in std::fs::read_dir(self.root.path().join("machines")).into_iter().flatten() {
            let id = entry.expect("an entry").file_name();
            let name = format!("$(ip netns list | grep -o 'orrery-[0-9a-f]*-{}')", id.display());
            run(&format!("for n in {name}; do kill -9 $(ip netns pids $n); ip netns del $n; done"))
                .expect("a shell");
        }
    }
}

impl World {
    /// With a class whose machines run this script.
    fn start(script: &str) -> Self {
        let class = r#"{"metadata":{"namespace":"shop"},"spec":{"secretRef":{"name":"s"}}}"#;
        Self::with_class(class, script)
    }

    fn with_class(class: &str, script: &str) -> Self {
        use base64::Engine;
        let script = base64::engine::general_purpose::STANDARD.encode(script);
        let secret = serde_json::json!({"data": {"userData": script}}).to_string();
        let at = SecretRef { namespace: "shop".into(), name: "s".into() };
        let data = DataProvider::fixed(
            [(CLASS.to_owned(), Class::parse(class, 1).expect("a class"))],
            [(at, Secret::parse(&secret, 1).expect("a secret"))],
        );
        Self { root: TempDir::new().expect("a folder"), data }
    }

    /// A driver as it is after its start: it remembers nothing but what is in the folder.
    fn driver(&self) -> Process {
        // Each test its own network: the process id is different for each.
        let [.., b, c] = std::process::id().to_be_bytes();
        let root = self.root.path().join("machines");
        let options = Options { root, subnet: Ipv4Addr::new(10, b, c, 0), agent: None };
        Process::new(options).expect("root, ip and unshare")
    }

    fn request(&self, name: &str) -> Request {
        let mut request = Request::on(CLASS, self.data.clone());
        request.machine_name = name.into();
        request.idempotency_key = format!("uid-{name}-{}", self.root.path().display());
        request
    }

    async fn list(&self) -> Vec<Machine> {
        self.driver().list(&Request::on(CLASS, self.data.clone())).await.expect("lists")
    }

    fn file(&self, made: &str, name: &str) -> std::path::PathBuf {
        let id = made.strip_prefix("process:///").expect("a machine of this driver");
        self.root.path().join("machines").join(id).join(name)
    }
}

async fn until<F: Future<Output = bool>>(what: &str, is: impl Fn() -> F) {
    let limit = tokio::time::Instant::now() + Duration::from_secs(60);
    while !is().await {
        assert!(tokio::time::Instant::now() < limit, "{what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn has_processes(marker: &str) -> bool {
    let is_marked = |entry: std::io::Result<std::fs::DirEntry>| {
        let line = entry.map(|it| std::fs::read(it.path().join("cmdline")).unwrap_or_default());
        line.is_ok_and(|it| String::from_utf8_lossy(&it).contains(marker))
    };
    std::fs::read_dir("/proc").expect("proc").any(is_marked)
}

fn devices() -> String {
    let output = std::process::Command::new("ip").args(["-o", "link"]).output().expect("ip");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn namespaces() -> String {
    let output = std::process::Command::new("ip").args(["netns", "list"]).output().expect("ip");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The whole life of two machines, across a restart of the driver.
#[tokio::test]
async fn machines_live_on_and_go_without_leftovers() {
    let marker = format!("{}.125", 100_000 + std::process::id());
    let script = format!(
        "#!/bin/sh\nhostname > name\nsetsid sleep {marker} &\nsleep {marker} &\n\
         exec python3 -c \"import os, socket; s = socket.create_server((os.environ['ORRERY_ADDRESS'], 8080))\n\
         while True: s.accept()\"\n"
    );
    let world = World::start(&script);
    let first = world.driver().create(&world.request("m1")).await.expect("created");
    let second = world.driver().create(&world.request("m2")).await.expect("created");
    assert_ne!(first.addresses, second.addresses);
    for made in [&first, &second] {
        let address = format!("{}:8080", made.addresses[0]);
        until("the machine answers at its own address", || async {
            TcpStream::connect(&address).await.is_ok()
        })
        .await;
    }
    let name = std::fs::read_to_string(world.file(&first.provider_id, "name")).expect("written");
    assert_eq!(name.trim(), "m1", "its own host name");

    // Every call above and below is by a driver that was just started.
    let again = world.driver().create(&world.request("m1")).await.expect("adopted");
    assert_eq!((&again.provider_id, again.adopted), (&first.provider_id, true));
    let found = world.list().await;
    assert_eq!(found.len(), 2);
    assert!(found.iter().all(|it| it.state == MachineState::Running), "{found:?}");
    assert_eq!(found[1].idempotency_key, world.request("m2").idempotency_key);

    let mut request = world.request("m1");
    request.machine_id.clone_from(&first.provider_id);
    world.driver().delete(&request).await.expect("deleted");
    world.driver().delete(&request).await.expect("deleted twice is deleted");
    assert_eq!(world.list().await.len(), 1);
    assert!(TcpStream::connect(format!("{}:8080", second.addresses[0])).await.is_ok());
    world.driver().delete(&world.request("m2")).await.expect("deleted by its key");

    assert!(!has_processes(&marker), "no process is left");
    for made in [&first, &second] {
        let id = made.provider_id.strip_prefix("process:///").expect("an id");
        assert!(!namespaces().contains(id) && !devices().contains(id));
    }
    let left = std::fs::read_dir(world.root.path().join("machines")).expect("there");
    let left: Vec<_> = left.map(|it| it.expect("an entry").file_name()).collect();
    assert_eq!(left, ["lock"]);
}

/// A driver that was killed in the middle of a create is finished by the next attempt.
#[tokio::test]
async fn a_broken_off_create_is_finished() {
    let world = World::start("#!/bin/sh\nexec sleep 1000\n");
    let (driver, request) = (world.driver(), world.request("m1"));
    let broken = tokio::spawn(async move { driver.create(&request).await });
    let folder = world.root.path().join("machines");
    until("its record is written", || async { folders(&folder) == 1 }).await;
    broken.abort();
    broken.await.ok();
    let made = world.driver().create(&world.request("m1")).await.expect("finished");
    let found = world.list().await;
    assert_eq!(found.len(), 1);
    assert_eq!((&found[0].id, found[0].state), (&made.provider_id, MachineState::Running));
    world.driver().delete(&world.request("m1")).await.expect("deleted");
    assert!(world.list().await.is_empty());
}

fn folders(root: &Path) -> usize {
    let is_machine = |entry: &std::fs::DirEntry| entry.path().join("machine.json").exists();
    std::fs::read_dir(root).map_or(0, |all| all.flatten().filter(is_machine).count())
}

/// A machine whose first process ends is stopped, and can still be deleted.
#[tokio::test]
async fn a_machine_that_ends_is_stopped() {
    let class = r#"{"metadata":{"namespace":"shop"},"spec":{"command":["true"],"env":{"A":"b"}}}"#;
    let world = World::with_class(class, "");
    world.driver().create(&world.request("m1")).await.expect("created");
    until("it has ended", || async { world.list().await[0].state == MachineState::Stopped }).await;
    world.driver().delete(&world.request("m1")).await.expect("deleted");
    assert!(world.list().await.is_empty());
}

#[tokio::test]
async fn what_cannot_run_is_refused_and_leaves_nothing() {
    for class in [
        r#"{"metadata":{"namespace":"shop"},"spec":{}}"#,
        r#"{"metadata":{"namespace":"shop"},"spec":{"comand":["true"]}}"#,
        r#"{"metadata":{"namespace":"shop"},"spec":{"secretRef":{"name":"s"}}}"#,
    ] {
        let world = World::with_class(class, "no script");
        let error = world.driver().create(&world.request("m1")).await.expect_err("refused");
        assert_eq!(error.code, ErrorCode::InvalidArgument, "{error}");
        assert_eq!(folders(&world.root.path().join("machines")), 0);
        let mut request = world.request("m1");
        request.machine_id = "../../etc".into();
        let error = world.driver().delete(&request).await.expect_err("no machine");
        assert_eq!(error.code, ErrorCode::InvalidArgument);
    }
}
