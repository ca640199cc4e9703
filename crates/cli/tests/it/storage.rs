//! Server, storage controller and CSI driver as processes of their own.
use crate::harness::{Home, ORRERY, Process, repository, until};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// A server with its storage registry, and a controller on a folder of its own.
pub struct Site {
    pub home: Home,
    pub url: String,
    registry: String,
    memory: PathBuf,
    _server: Process,
}

impl Site {
    pub fn start() -> Self {
        let home = Home::new();
        // A free port that the next call asks for by name: that of the registry is not printed
        // where the harness reads.
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let registry = free.to_string();
        let more = ["--storage-listen".to_owned(), registry.clone()];
        let (server, url) = home.server("data", &more);
        let memory = PathBuf::from(format!("/dev/shm/orrery-cli-{}", std::process::id()));
        Self { home, url, registry, memory, _server: server }
    }

    pub fn controller(&self, id: &str) -> Process {
        self.controller_with(id, &[])
    }

    pub fn controller_with(&self, id: &str, more: &[&str]) -> Process {
        let mut command = self.home.command(ORRERY);
        command.args(["storage-controller", "--id", id, "--registry", &self.registry]);
        command.args(["--refresh-seconds", "1", "--state"]).arg(self.home.path(id));
        command.arg("--memory").arg(&self.memory).stderr(Stdio::null());
        let process = Process(command.args(more).spawn().unwrap());
        let get = ["get", "storagecontrollers", id, "--server", &self.url, "-o"];
        let state = [&get[..], &["jsonpath={.status.state}"]].concat();
        until("the controller is ready", || {
            let done = self.home.orrery(&state);
            (done.code == Some(0) && done.out.contains("Ready")).then_some(())
        });
        process
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // There may be none.
        let _ = std::fs::remove_dir_all(&self.memory);
    }
}

/// Runs a client in Python with one argument, which is where it calls.
#[track_caller]
pub fn python(script: &str, target: &str) {
    let script = repository().join("crates/cli/tests/clients").join(script);
    let mut python = Command::new(tools().join("venv/bin/python"));
    let said = python.arg(script).arg(target).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    assert!(said.status.success() && out.ends_with("all good\n"), "{out}{err}");
}

pub fn tools() -> PathBuf {
    match std::env::var_os("ORRERY_TOOLS") {
        Some(folder) => folder.into(),
        None => repository().join("target/tools"),
    }
}

/// A client that knows nothing of ours, in another language, for a service that is not the
/// registry's.
///
/// proves: VOL-03
/// proves: VOL-04
#[test]
fn python_grpcio_reaches_a_controller() {
    let site = Site::start();
    let _controller = site.controller("host-1");
    python("storage_proxy.py", &site.registry);
}

/// Both ends are somebody else's; only what is between them is ours.
///
/// proves: VOL-03
#[test]
fn python_grpcio_calls_python_grpcio_through_the_proxy() {
    python("storage_proxy_calls.py", &Site::start().registry);
}

/// A client of gRPC's C core names the path of the socket as its authority, with percent signs in it.
///
/// proves: VOL-08
#[test]
fn python_grpcio_calls_a_csi_driver_on_its_socket() {
    let home = Home::new();
    let socket = home.path("csi.sock");
    let mut command = home.command(ORRERY);
    command.arg("csi").arg("--endpoint").arg(format!("unix://{}", socket.display()));
    command.args(["--node-id", "host-1", "--state"]).arg(home.path("state"));
    command.arg("--memory").arg(home.path("memory")).stderr(Stdio::null());
    let _driver = Process(command.spawn().unwrap());
    until("the driver listens", || std::os::unix::net::UnixStream::connect(&socket).ok().map(drop));
    python("csi_socket.py", &socket.display().to_string());
}

/// proves: VOL-02
/// proves: VOL-03
/// proves: VOL-08
#[tokio::test(flavor = "multi_thread")]
async fn a_csi_driver_serves_the_volumes_of_a_controller_behind_the_registry() {
    use orrery_proto::csi::v1 as csi;
    let site = tokio::task::block_in_place(Site::start);
    let controller = tokio::task::block_in_place(|| site.controller("host-1"));
    let listed = site.home.orrery(&["get", "sc", "--server", &site.url]).good();
    assert!(listed.contains("host-1") && listed.contains("loop"), "{listed}");

    let socket = site.home.path("csi.sock");
    let endpoint = format!("unix://{}", socket.display());
    let driver = || {
        let mut command = site.home.command(ORRERY);
        command.args(["csi", "--endpoint", &endpoint, "--node-id", "host-1"]);
        Process(command.args(["--registry", &site.registry]).stderr(Stdio::null()).spawn().unwrap())
    };
    let mut first = driver();
    let connect = || {
        let socket = socket.clone();
        let dial = tower::service_fn(move |_: http::Uri| {
            let socket = socket.clone();
            async move {
                let stream = tokio::net::UnixStream::connect(socket).await?;
                Ok::<_, std::io::Error>(hyper_util::rt::TokioIo::new(stream))
            }
        });
        tonic::transport::Endpoint::from_static("http://csi").connect_with_connector_lazy(dial)
    };
    tokio::task::block_in_place(|| until("the driver listens", || socket.exists().then_some(())));
    let capability = csi::VolumeCapability {
        access_mode: Some(csi::volume_capability::AccessMode { mode: 1 }),
        access_type: Some(csi::volume_capability::AccessType::Mount(<_>::default())),
    };
    let create = csi::CreateVolumeRequest {
        name: "pvc-1".into(),
        capacity_range: Some(csi::CapacityRange { required_bytes: 16 << 20, limit_bytes: 0 }),
        volume_capabilities: vec![capability],
        ..<_>::default()
    };
    let mut client = csi::controller_client::ControllerClient::new(connect());
    let made = client.create_volume(create.clone()).await.unwrap().into_inner().volume.unwrap();
    assert_eq!(made.capacity_bytes, 16 << 20);

    // Every part is killed and started again; the volume is the same.
    first.kill();
    drop(controller);
    let _controller = tokio::task::block_in_place(|| site.controller("host-1"));
    let _second = driver();
    let mut client = csi::controller_client::ControllerClient::new(connect());
    tokio::task::block_in_place(|| {
        until("the new driver listens", || {
            std::os::unix::net::UnixStream::connect(&socket).ok().map(drop)
        });
    });
    let again = client.create_volume(create).await.unwrap().into_inner().volume.unwrap();
    assert_eq!(again.volume_id, made.volume_id);
    let delete = csi::DeleteVolumeRequest { volume_id: made.volume_id, ..<_>::default() };
    client.delete_volume(delete).await.unwrap();
}

/// proves: VOL-02
#[test]
fn the_port_of_the_registry_is_chosen_refused_or_done_without() {
    let home = Home::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let listen = ["--listen", "127.0.0.1:0", "--storage-listen"];
    for command in ["up", "server"] {
        let arguments = [&[command], &listen[..], &[address.as_str()]].concat();
        let said = home.orrery(&arguments).bad(1);
        assert!(said.contains(&address) && said.contains("--storage-listen"), "{said}");
    }
    let said = home.orrery(&["server", "--listen", "127.0.0.1:0", "--storage-listen", "here"]);
    assert!(said.bad(2).contains("ADDRESS:PORT, or off"));
    let said = home.orrery(&[&["server"], &listen[..], &["0.0.0.0:0"]].concat()).bad(1);
    assert!(said.contains("certificates"), "{said}");
    let mut up = home.start(&[&["up"], &listen[..], &["off"]].concat());
    assert!(up.interrupt().success());
}
