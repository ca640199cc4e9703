//! Every machine joins with a token and nothing else: drivers, storage controllers, hosts, proxies. Their
//! certificates renew themselves, and what was opened with an old one is opened again.
use crate::harness::{Done, Home, ORRERY, Process, Up, until};
use crate::mesh::{self, Envoy};
use orrery_proto::csi::v1 as csi;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Short, so that certificates end while a test looks.
const LIFETIME: &str = "20s";

/// A server that signs, and a person who may do everything there.
struct Site {
    home: Home,
    up: Up,
    url: String,
}

impl Site {
    fn start() -> Self {
        let home = Home::new();
        let up = ["up", "--tls", "--listen", "127.0.0.1:0", "--certificate-lifetime", LIFETIME];
        let up = home.start(&up);
        let url = up.server();
        Self { home, up, url }
    }

    fn token(&self, role: &str, name: &str) -> String {
        let create = ["token", "create", "--role", role, "--name", name, "--uses", "1"];
        self.home.orrery(&create).good().trim().to_owned()
    }

    /// A process that logs to a file of its name.
    fn process(&self, log: &str, arguments: &[&str]) -> Process {
        let mut command = self.command(arguments);
        let log = std::fs::File::create(self.home.path(log)).unwrap();
        Process(command.stderr(log).stdout(Stdio::null()).spawn().unwrap())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.home.command(ORRERY);
        command.args(arguments);
        command
    }

    fn folder(&self, name: &str) -> String {
        self.home.path(name).display().to_string()
    }

    fn get(&self, arguments: &[&str]) -> Done {
        self.home.orrery(&[&["get"], arguments].concat())
    }
}

/// The certificate in a folder, once there is another one than before.
fn next(file: &Path, before: &[u8]) -> Vec<u8> {
    until("the certificate is renewed", || {
        std::fs::read(file).ok().filter(|found| !found.is_empty() && found != before)
    })
}

/// Waits until two more certificates came: those from before have ended then.
fn outlive(files: &[PathBuf]) {
    let first: Vec<_> = files.iter().map(|file| next(file, &[])).collect();
    let second: Vec<_> = files.iter().zip(&first).map(|(file, old)| next(file, old)).collect();
    for (file, old) in files.iter().zip(&second) {
        next(file, old);
    }
}

/// proves: MCH-04
#[test]
fn a_driver_joins_with_a_token_and_keeps_its_certificate_good() {
    let site = Site::start();
    let (token, folder, drivers) =
        (site.token("driver", "aws"), site.folder("driver"), site.up.drivers());
    let connect = ["driver", "aws", "--name", "aws", "--server", &drivers];
    let join = ["--join-server", &site.url, "--identity-dir", &folder];
    let connect = [&connect[..], &join].concat();
    let mut first = site.process("driver.log", &[&connect[..], &["--token", &token]].concat());
    let active = || {
        until("the driver is active", || {
            let shown = site.get(&["drivers"]).good();
            (shown.contains("Active") && shown.contains("/driver/aws")).then_some(())
        });
    };
    active();
    outlive(&[site.home.path("driver/certificate.pem")]);
    active();
    let log = std::fs::read_to_string(site.home.path("driver.log")).unwrap();
    assert!(!log.contains(&token), "the token is in no log");

    // The next start needs no token; another one, and another name, are told what is wrong.
    first.kill();
    let _second = site.process("driver2.log", &connect);
    active();
    let refused = |more: &[&str]| {
        let mut command = site.command(&["driver", "aws", "--server", &drivers]);
        command.args(["--join-server", &site.url]).args(more);
        Done::from(command.output().unwrap()).bad(1)
    };
    let other = site.folder("other");
    let said = refused(&["--name", "gcp", "--identity-dir", &folder]);
    assert!(said.contains("/driver/aws") && said.contains("not of driver gcp"), "{said}");
    let said = refused(&["--name", "gcp", "--identity-dir", &other, "--token", &token]);
    assert!(said.contains("as often as it may be"), "{said}");
    let said = refused(&["--name", "gcp", "--identity-dir", &other, "--token", &token[..20]]);
    assert!(said.contains("not whole"), "{said}");
    let agents = site.token("agent", "gcp");
    let said = refused(&["--name", "gcp", "--identity-dir", &other, "--token", &agents]);
    assert!(said.contains("is for agent \"gcp\", not for driver"), "{said}");
}

/// proves: VOL-09
#[tokio::test(flavor = "multi_thread")]
async fn a_storage_controller_and_a_host_join_with_tokens() {
    let site = tokio::task::block_in_place(Site::start);
    let (registry, url) = (site.up.storage(), site.url.clone());
    let memory = format!("/dev/shm/orrery-members-{}", std::process::id());
    let _memory = Removed(PathBuf::from(&memory));
    let (tokens, states) = tokio::task::block_in_place(|| {
        let tokens = [site.token("controller", "host-1"), site.token("host", "host-1")];
        (tokens, [site.folder("controller"), site.folder("host")])
    });
    let common = ["--registry", &registry, "--join-server", &url, "--memory", &memory];
    let controller = ["storage-controller", "--id", "host-1", "--refresh-seconds", "1"];
    let own = ["--token", &tokens[0], "--state", &states[0]];
    let _controller = site.process("controller.log", &[&controller[..], &common, &own].concat());
    let ready = || {
        until("the controller is ready", || {
            let shown = site.get(&["storagecontrollers", "host-1"]);
            (shown.code == Some(0) && shown.out.contains("Ready")).then_some(())
        });
    };
    tokio::task::block_in_place(ready);
    let socket = site.home.path("csi.sock");
    let endpoint = format!("unix://{}", socket.display());
    let host = ["csi", "--endpoint", &endpoint, "--node-id", "host-1"];
    let own = ["--token", &tokens[1], "--state", &states[1]];
    let _host = site.process("host.log", &[&host[..], &common, &own].concat());
    tokio::task::block_in_place(|| until("the driver listens", || socket.exists().then_some(())));
    volume(&socket, "pvc-1").await;
    tokio::task::block_in_place(|| {
        outlive(&[
            site.home.path("controller/controller/identity/certificate.pem"),
            site.home.path("host/host/identity/certificate.pem"),
        ]);
        ready();
    });
    volume(&socket, "pvc-2").await;
}

/// Makes a volume by CSI: the host proves who it is to the registry, which asks the controller.
async fn volume(socket: &Path, name: &str) {
    let at = socket.to_owned();
    let dial = tower::service_fn(move |_: http::Uri| {
        let at = at.clone();
        async move {
            let stream = tokio::net::UnixStream::connect(at).await?;
            Ok::<_, std::io::Error>(hyper_util::rt::TokioIo::new(stream))
        }
    });
    let endpoint = tonic::transport::Endpoint::from_static("http://csi");
    let channel = endpoint.connect_with_connector_lazy(dial);
    let mut client = csi::controller_client::ControllerClient::new(channel);
    let capability = csi::VolumeCapability {
        access_mode: Some(csi::volume_capability::AccessMode { mode: 1 }),
        access_type: Some(csi::volume_capability::AccessType::Mount(<_>::default())),
    };
    let create = csi::CreateVolumeRequest {
        name: name.into(),
        capacity_range: Some(csi::CapacityRange { required_bytes: 4 << 20, limit_bytes: 0 }),
        volume_capabilities: vec![capability],
        ..<_>::default()
    };
    // A connection may be on its way to be opened again just now.
    let mut last = None;
    for _ in 0..600 {
        match client.create_volume(create.clone()).await {
            Ok(_) => return,
            Err(status) => last = Some(status),
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    panic!("no volume: {last:?}");
}

struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        // There may be none.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// proves: MSH-07
#[test]
fn an_envoy_joins_with_a_token_and_notices_renewed_certificates() {
    let site = Site::start();
    let (token, folder) = (site.token("proxy", "web.shop"), site.folder("proxies"));
    let declared =
        [mesh::PROJECT.to_owned(), mesh::service("web", "{ports: [{name: http, port: 80}]}")];
    mesh::apply(&site.home, "web.yaml", &[], &declared.concat());
    let at = ["--server", &site.url, "--tls-dir", &folder];
    let envoy = Envoy::start(&site.home, "web", &[&at[..], &["--token", &token]].concat());
    let stay = ["mesh", "bootstrap", "-p", "shop", "--service", "web", "--renew"];
    let _renewing = site.process("renewing.log", &[&stay[..], &at].concat());
    outlive(&[site.home.path("proxies/certificate.pem")]);
    // What it had connected with has ended by now; what is new reaches it over a connection with a
    // certificate that came later.
    let late = mesh::service("late", "{ports: [{name: http, port: 80}]}");
    mesh::apply(&site.home, "late.yaml", &[], &late);
    until("the Envoy hears of it", || envoy.clusters().contains("shop/late").then_some(()));
    let shown = site.home.orrery(&["mesh", "proxies", "-A"]).good();
    assert!(shown.contains("shop/web"), "{shown}");

    let plain = site
        .command(&["mesh", "bootstrap", "--service", "web", "--token", &token])
        .args(["--server", "http://127.0.0.1:1"])
        .output();
    let said = Done::from(plain.unwrap()).bad(1);
    assert!(said.contains("plain connections"), "{said}");
}
