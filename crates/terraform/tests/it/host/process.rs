//! The provider's process, and the connection to it.
use super::Certificate;
use hyper_util::rt::TokioIo;
use orrery_terraform::wire::plugin::Nothing;
use orrery_terraform::wire::plugin::grpc_controller_client::GrpcControllerClient;
use orrery_terraform::wire::tfplugin6::provider_client::ProviderClient;
use orrery_testkit::world::SOON;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::{CertificateDer, ServerName};
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tonic::transport::{Channel, Endpoint, Uri};

const PROVIDER: &str = env!("CARGO_BIN_EXE_terraform-provider-orrery");
const COOKIE: &str = "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2";

pub type Trouble = Box<dyn std::error::Error + Send + Sync>;

/// A provider that runs, and what it said of itself.
pub struct Host {
    pub child: Child,
    pub certificate: Certificate,
    socket: PathBuf,
    provider: CertificateDer<'static>,
}

/// Starts the provider without the word that hosts say.
pub async fn without_a_host() -> (ExitStatus, String) {
    let output = Command::new(PROVIDER).env_clear().output().await.unwrap();
    (output.status, String::from_utf8(output.stderr).unwrap())
}

/// The one line that a provider says.
async fn line(child: &mut Child) -> String {
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    timeout(SOON, lines.next_line()).await.expect("a line soon").unwrap().expect("a line")
}

impl Host {
    /// Starts the provider, and reads its line.
    pub async fn start() -> Self {
        let certificate = Certificate::make();
        let mut child = Command::new(PROVIDER)
            .env_clear()
            .env("TF_PLUGIN_MAGIC_COOKIE", COOKIE)
            .env("PLUGIN_PROTOCOL_VERSIONS", "5,6")
            .env("PLUGIN_CLIENT_CERT", &certificate.pem)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line =
            timeout(SOON, lines.next_line()).await.expect("a line soon").unwrap().expect("a line");
        let parts: Vec<&str> = line.split('|').collect();
        let [core, protocol, network, socket, kind, shown] = parts[..] else { panic!("{line}") };
        assert_eq!((core, protocol, network, kind), ("1", "6", "unix", "grpc"), "{line}");
        use base64::Engine as _;
        let der = base64::engine::general_purpose::STANDARD_NO_PAD.decode(shown).unwrap();
        Self { child, certificate, socket: socket.into(), provider: der.into() }
    }

    /// Starts the provider from a host that is killed at once, and returns its socket.
    pub async fn killed() -> PathBuf {
        let mut host = Command::new("sh")
            .args(["-c", "\"$0\" & wait", PROVIDER])
            .env_clear()
            .env("TF_PLUGIN_MAGIC_COOKIE", COOKIE)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let line = line(&mut host).await;
        host.kill().await.unwrap();
        line.split('|').nth(3).unwrap().into()
    }

    /// Connects as whoever has this certificate.
    pub async fn connect_as(&self, who: &Certificate) -> Result<Channel, Trouble> {
        let mut roots = RootCertStore::empty();
        roots.add(self.provider.clone())?;
        let mut config = ClientConfig::builder_with_provider(orrery_pki::crypto_provider())
            .with_protocol_versions(&[&rustls::version::TLS13])?
            .with_root_certificates(roots)
            .with_client_cert_resolver(Arc::new(who.clone()));
        config.alpn_protocols = vec![b"h2".to_vec()];
        let connector = TlsConnector::from(Arc::new(config));
        let socket = self.socket.clone();
        let open = tower::service_fn(move |_: Uri| {
            let (connector, socket) = (connector.clone(), socket.clone());
            async move {
                let name = ServerName::try_from("localhost").unwrap();
                let stream = connector.connect(name, UnixStream::connect(socket).await?).await?;
                Ok::<_, std::io::Error>(TokioIo::new(stream))
            }
        });
        Ok(Endpoint::from_static("http://localhost").connect_with_connector(open).await?)
    }

    pub async fn provider(&self) -> ProviderClient<Channel> {
        let channel = self.connect_as(&self.certificate).await.expect("the provider listens");
        ProviderClient::new(channel).max_decoding_message_size(64 << 20)
    }

    /// Without TLS.
    pub async fn connect_plain(&self) -> UnixStream {
        UnixStream::connect(&self.socket).await.unwrap()
    }

    /// Asks the provider to end, and waits for that.
    pub async fn shut_down(mut self) -> (ExitStatus, String) {
        let channel = self.connect_as(&self.certificate).await.unwrap();
        GrpcControllerClient::new(channel).shutdown(Nothing {}).await.unwrap();
        let status = timeout(SOON, self.child.wait()).await.expect("it ends soon").unwrap();
        let mut said = String::new();
        self.child.stderr.take().unwrap().read_to_string(&mut said).await.unwrap();
        assert!(!self.socket.exists(), "it leaves its socket behind");
        (status, said)
    }
}
