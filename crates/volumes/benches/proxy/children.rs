//! The echo and our proxy as processes, and the certificates that everybody uses.
use crate::echo;
use orrery_pki::{Authority, ClientAuth, IssueRequest, Role, TlsFiles, TlsMaterial, Validity};
use orrery_volumes::{
    Address, ControllerDirectory, ControllerId, Entry, MemoryDirectory, ProxyConfig, ServeConfig,
    serve,
};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

pub const CONTROLLER: &str = "host-1";

/// A port for everybody.
pub struct Ports {
    pub echo: u16,
    pub ours: u16,
    pub nginx: u16,
    pub envoy: u16,
}

impl Ports {
    pub fn pick() -> Self {
        let bound = [(); 4].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
        let [echo, ours, nginx, envoy] = bound.map(|bound| bound.local_addr().unwrap().port());
        Self { echo, ours, nginx, envoy }
    }
}

/// The caller's certificate; those of the others are in files.
pub struct Identities {
    pub caller: TlsMaterial,
}

impl Identities {
    #[allow(clippy::disallowed_methods, reason = "certificates are judged by the real clock")]
    pub fn write(folder: &Path) -> Self {
        let validity =
            || Validity::starting(std::time::SystemTime::now(), Duration::from_secs(86_400));
        let authority = Authority::generate(&"bench.local".parse().unwrap(), validity()).unwrap();
        let issue = |role: Role, name: &str| {
            authority.issue(&IssueRequest::new(role, name), validity()).unwrap()
        };
        for (role, name) in [(Role::Server, "s"), (Role::Controller, CONTROLLER)] {
            let place = folder.join(role.as_str());
            std::fs::create_dir_all(&place).unwrap();
            let written = issue(role, name).write_to(&place).unwrap();
            let named = files(folder, role);
            std::fs::rename(written.root.unwrap(), named.root.unwrap()).unwrap();
            std::fs::rename(written.certificate.unwrap(), named.certificate.unwrap()).unwrap();
            std::fs::rename(written.key.unwrap(), named.key.unwrap()).unwrap();
        }
        Self { caller: issue(Role::Host, CONTROLLER).material().unwrap() }
    }
}

/// The files of a role, as [`Identities::write`] left them.
pub fn files(folder: &Path, role: Role) -> TlsFiles {
    let place = folder.join(role.as_str());
    let named = |part: &str| Some(place.join(format!("the-{part}.pem")));
    TlsFiles { root: named("root"), certificate: named("certificate"), key: named("key") }
}

fn material(folder: &str, role: Role) -> Option<TlsMaterial> {
    if folder == "-" { None } else { files(Path::new(folder), role).load().unwrap() }
}

pub async fn serve_echo(port: &str, folder: &str) {
    let listener = TcpListener::bind(("127.0.0.1", port.parse().unwrap())).await.unwrap();
    let tls = material(folder, Role::Controller);
    let acceptor = tls.map(|tls| TlsAcceptor::from(tls.server_config(ClientAuth::Required)));
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let acceptor = acceptor.clone();
        tokio::spawn(async move {
            // Connections end when their proxies do.
            let _ended = match acceptor {
                None => echo::serve(stream).await,
                Some(acceptor) => match acceptor.accept(stream).await {
                    Ok(stream) => echo::serve(stream).await,
                    Err(_refused) => Ok(()),
                },
            };
        });
    }
}

pub async fn serve_proxy(port: &str, echo: &str, folder: &str) {
    let listener = TcpListener::bind(("127.0.0.1", port.parse().unwrap())).await.unwrap();
    let directory = Arc::new(MemoryDirectory::default());
    let id = ControllerId::parse(CONTROLLER).unwrap();
    let address = Address::parse(&format!("127.0.0.1:{echo}")).unwrap();
    directory.put(Entry { id, address }).await.unwrap();
    let tls = material(folder, Role::Server);
    let config = ServeConfig {
        tls: tls.as_ref().map(|tls| tls.server_config(ClientAuth::Required)),
        proxy: ProxyConfig { tls: tls.as_ref().map(TlsMaterial::client_config), ..<_>::default() },
        ..ServeConfig::default()
    };
    serve(listener, config, directory, CancellationToken::new()).await;
}

/// A process that ends with its owner.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Running {
    /// CPU time used so far.
    pub fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id())).unwrap();
        let (_, fields) = stat.rsplit_once(')').unwrap();
        let ticks = fields.split_whitespace().skip(11).take(2).map(|f| f.parse::<f64>().unwrap());
        Duration::from_secs_f64(ticks.sum::<f64>() / 100.0)
    }
}

pub fn spawn(command: &mut Command) -> Running {
    let quiet = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    Running(quiet.spawn().unwrap_or_else(|error| panic!("start {command:?}: {error}")))
}

/// This program, in another role.
pub fn ourselves(words: &[&str]) -> Running {
    spawn(Command::new(std::env::current_exe().unwrap()).args(words))
}

pub async fn start_echo(ports: &Ports, folder: &Path, encrypted: bool) -> Running {
    let folder = if encrypted { folder.to_str().unwrap() } else { "-" };
    let running = ourselves(&["serve-echo", &ports.echo.to_string(), folder]);
    listening(ports.echo).await;
    running
}

pub async fn listening(port: u16) {
    for _ in 0..3000 {
        if tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("nothing listens on port {port}");
}
