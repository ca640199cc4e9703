//! Drivers over mutual TLS, with certificates made for the test.
use crate::world::{SOON, Sources, call, key, machine, target};
use orrery_driver::{Created, Driver, Error, Machine, Options, Request};
use orrery_machines::drivers::{
    self, Attributed, CertificateOrLoopback, Config, DriverState, Drivers, Peer, SecretRef,
    SecretValue, Timing,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, SanType};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;
use tokio_stream::{StreamExt, wrappers::ReceiverStream};
use tokio_util::sync::CancellationToken;

const DRIVER: &str = "spiffe://orrery/driver/a";

type Certified = (CertificateDer<'static>, PrivateKeyDer<'static>);

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("signs itself"))
    }

    fn issue(&self, name: SanType) -> Certified {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::default();
        params.subject_alt_names = vec![name];
        let certificate = params.signed_by(&key, &self.0).expect("signs");
        (certificate.der().clone(), PrivatePkcs8KeyDer::from(key.serialize_der()).into())
    }

    fn roots(&self) -> Arc<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.0.der().clone()).expect("an authority");
        Arc::new(roots)
    }

    fn server(&self) -> ServerConfig {
        let dns = SanType::DnsName("localhost".try_into().expect("a name"));
        let (certificate, key) = self.issue(dns);
        let verifier = WebPkiClientVerifier::builder_with_provider(self.roots(), provider());
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_client_cert_verifier(verifier.build().expect("a verifier"))
            .with_single_cert(vec![certificate], key)
            .expect("a server");
        config.alpn_protocols = vec![b"h2".to_vec()];
        config
    }

    fn client(&self, (certificate, key): Certified) -> Arc<ClientConfig> {
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(self.roots())
            .with_client_auth_cert(vec![certificate], key)
            .expect("a client");
        config.alpn_protocols = vec![b"h2".to_vec()];
        Arc::new(config)
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// What the server's listener does: TLS, and the name of the verified certificate.
async fn serve(drivers: &Drivers, tls: ServerConfig, known: CertificateDer<'static>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
    let port = listener.local_addr().expect("bound").port();
    let (connections, accepted) = mpsc::channel(4);
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    tokio::spawn(async move {
        while let Ok((tcp, address)) = listener.accept().await {
            let Ok(tls) = acceptor.accept(tcp).await else { continue };
            let shown = tls.get_ref().1.peer_certificates().and_then(|it| it.first());
            let identity = (shown == Some(&known)).then(|| DRIVER.to_owned());
            let peer = Peer { address: Some(address), identity };
            connections.send(Attributed::new(tls, peer)).await.expect("served");
        }
    });
    let accepted = ReceiverStream::new(accepted).map(Ok::<_, std::io::Error>);
    let server = drivers::transport(&Timing::default()).add_service(drivers.service());
    tokio::spawn(server.serve_with_incoming(accepted));
    port
}

struct ReadsSecret;

#[async_trait::async_trait]
impl Driver for ReadsSecret {
    async fn create(&self, request: &Request) -> Result<Created, Error> {
        let at = orrery_driver::SecretRef { namespace: "shop".into(), name: "cloud".into() };
        let secret = request.data.secret(&at).await?;
        Ok(Created { provider_id: secret.text("key")?.to_owned(), ..Created::default() })
    }

    async fn delete(&self, _request: &Request) -> Result<(), Error> {
        Ok(())
    }

    async fn list(&self, _request: &Request) -> Result<Vec<Machine>, Error> {
        Ok(Vec::new())
    }
}

/// Defect 9: no TLS.
#[tokio::test]
async fn a_driver_is_known_by_its_certificate() {
    let sources = Arc::new(Sources::default());
    let at = SecretRef { project: "shop".into(), name: "cloud".into() };
    let json = r#"{"data":{"key":"dmFsdWU="}}"#.into();
    sources.secrets.lock().insert(at.clone(), SecretValue { revision: 1, json });
    sources.named.lock().insert((key("A"), at));
    let drivers = Drivers::start(Config {
        classes: sources.clone(),
        secrets: sources,
        gate: Arc::new(CertificateOrLoopback),
        timing: Timing::default(),
    });
    let authority = Authority::new();
    let certified = authority.issue(SanType::URI(DRIVER.try_into().expect("a name")));
    let port = serve(&drivers, authority.server(), certified.0.clone()).await;

    let address = format!("localhost:{port}");
    let channel = orrery_driver::channel(&address, Some(authority.client(certified)));
    let stop = CancellationToken::new();
    let options = Options::new("a", "infra", "A", "v1");
    let channel = channel.expect("an address");
    let running =
        tokio::spawn(orrery_driver::run(options, channel, Arc::new(ReadsSecret), stop.clone()));
    let mut watch = drivers.watch();
    let registered = tokio::time::timeout(SOON, watch.wait_for(|infos| !infos.is_empty())).await;
    let infos = registered.expect("in time").expect("lives").clone();
    assert_eq!(infos[0].peer.identity.as_deref(), Some(DRIVER));
    let made = drivers.create(&target("A"), &machine("m"), &call(30)).await.expect("created");
    assert_eq!(made.provider_id, "value", "the secret came over the same identity");

    stop.cancel();
    running.await.expect("ends");
    let gone = watch.wait_for(|infos| matches!(infos[0].state, DriverState::Gone(_)));
    tokio::time::timeout(SOON, gone).await.expect("in time").expect("lives");
}

/// A certificate of another authority does not get as far as registering.
#[tokio::test]
async fn a_strangers_certificate_does_not_connect() {
    let sources = Arc::new(Sources::default());
    let drivers = Drivers::start(Config {
        classes: sources.clone(),
        secrets: sources,
        gate: Arc::new(CertificateOrLoopback),
        timing: Timing::default(),
    });
    let (ours, other) = (Authority::new(), Authority::new());
    let known = ours.issue(SanType::URI(DRIVER.try_into().expect("a name")));
    let port = serve(&drivers, ours.server(), known.0).await;
    let stranger = other.issue(SanType::URI(DRIVER.try_into().expect("a name")));
    let channel = orrery_driver::channel(&format!("localhost:{port}"), Some(ours.client(stranger)));
    let channel = channel.expect("an address");
    let mut client = orrery_proto::infragrpc::infragrpc_client::InfragrpcClient::new(channel);
    let stream = client.register(tokio_stream::pending()).await;
    let refused = match stream {
        Err(_) => true,
        Ok(opened) => opened.into_inner().message().await.is_err(),
    };
    assert!(refused);
    assert!(drivers.watch().borrow().is_empty());
}
