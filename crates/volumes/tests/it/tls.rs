//! Identity: who may register, who is proxied where, and whom the proxy trusts.
use crate::{
    echo::{Client, to},
    world::{Registry, register, registry, soon},
};
use hyper_util::rt::TokioIo;
use orrery_proto::oim::v0::registry_client::RegistryClient;
use orrery_volumes::{ProxyConfig, ServeConfig};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType};
use rustls::{ClientConfig, RootCertStore, ServerConfig, server::WebPkiClientVerifier};
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use std::{net::SocketAddr, sync::Arc};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector};
use tonic::{
    Code, Status,
    transport::{Channel, Endpoint},
};

/// A certificate authority of the test's own.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    roots: Arc<RootCertStore>,
}

type Credentials = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(params.self_signed(&key).unwrap().der().clone()).unwrap();
        Self { issuer: Issuer::new(params, key), roots: Arc::new(roots) }
    }

    fn issue(&self, name: &str) -> Credentials {
        let text = name.try_into().unwrap();
        let mut params = CertificateParams::default();
        let uri = name.starts_with("spiffe:");
        params.subject_alt_names =
            vec![if uri { SanType::URI(text) } else { SanType::DnsName(text) }];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        (vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
    }

    fn server(&self, name: &str) -> Arc<ServerConfig> {
        let (chain, key) = self.issue(name);
        let verifier = WebPkiClientVerifier::builder(self.roots.clone()).build().unwrap();
        let config = ServerConfig::builder().with_client_cert_verifier(verifier);
        Arc::new(config.with_single_cert(chain, key).unwrap())
    }

    fn client(&self, name: &str) -> Arc<ClientConfig> {
        let (chain, key) = self.issue(name);
        let config = ClientConfig::builder().with_root_certificates(self.roots.clone());
        Arc::new(config.with_client_auth_cert(chain, key).unwrap())
    }
}

async fn world(authority: &Authority) -> Registry {
    registry(ServeConfig {
        tls: Some(authority.server("component.registry")),
        proxy: ProxyConfig {
            tls: Some(authority.client("component.registry")),
            ..Default::default()
        },
        ..ServeConfig::default()
    })
    .await
}

async fn channel(address: SocketAddr, config: Arc<ClientConfig>) -> Channel {
    let mut config = (*config).clone();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let connector = TlsConnector::from(Arc::new(config));
    let connect = tower::service_fn(move |_| {
        let connector = connector.clone();
        async move {
            let stream = TcpStream::connect(address).await?;
            let name = ServerName::try_from("component.registry").unwrap();
            connector.connect(name, stream).await.map(TokioIo::new)
        }
    });
    Endpoint::from_static("http://registry").connect_with_connector(connect).await.unwrap()
}

/// A controller whose certificate has the given name; it answers every call with `Aborted`.
async fn controller(authority: &Authority, name: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let mut config = (*authority.server(name)).clone();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(stream) = acceptor.accept(stream).await else { continue };
            let mut connection = h2::server::handshake(stream).await.unwrap();
            while let Some(Ok((_, mut respond))) = connection.accept().await {
                respond.send_response(Status::aborted("reached").into_http(), true).unwrap();
            }
        }
    });
    address
}

/// What a peer with this name gets when it registers a, registers b, and calls a.
async fn codes(authority: &Authority, registry: &Registry, name: &str) -> [Code; 3] {
    let channel = channel(registry.address, authority.client(name)).await;
    let mut client = RegistryClient::new(channel.clone());
    let code =
        |result: Result<(), Status>| result.map_or_else(|status| status.code(), |()| Code::Ok);
    let own = register(&mut client, "a", &controller(authority, "controller.a").await).await;
    let other = register(&mut client, "b", "host:1").await;
    let call = soon(Client::new(channel).unary("Unary", to("a", vec![]))).await;
    [code(own), code(other), code(call.map(|_| ()))]
}

/// proves: VOL-09
#[tokio::test]
async fn certificates_decide_who_registers_and_who_is_proxied() {
    use Code::{Aborted, Ok, PermissionDenied};
    let authority = Authority::new();
    let registry = world(&authority).await;
    for (name, expect) in [
        ("user.admin", [Ok, Ok, PermissionDenied]),
        ("controller.a", [Ok, PermissionDenied, PermissionDenied]),
        ("host.a", [PermissionDenied, PermissionDenied, Aborted]),
        ("host.b", [PermissionDenied, PermissionDenied, PermissionDenied]),
        ("user.bob", [PermissionDenied, PermissionDenied, PermissionDenied]),
        ("spiffe://example/host/a", [PermissionDenied, PermissionDenied, Aborted]),
        ("spiffe://example/controller/b", [PermissionDenied, Ok, PermissionDenied]),
    ] {
        assert_eq!(codes(&authority, &registry, name).await, expect, "{name}");
    }
}

/// proves: VOL-09
#[tokio::test]
async fn a_controller_with_another_name_is_not_spoken_to() {
    let authority = Authority::new();
    let registry = world(&authority).await;
    let admin = channel(registry.address, authority.client("user.admin")).await;
    let impostor = controller(&authority, "controller.b").await;
    register(&mut RegistryClient::new(admin), "a", &impostor).await.unwrap();
    let host = channel(registry.address, authority.client("host.a")).await;
    let status = soon(Client::new(host).unary("Unary", to("a", vec![]))).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable);
    assert!(status.message().contains("TLS handshake"), "{status}");
}

/// proves: VOL-09
#[tokio::test]
async fn a_peer_without_a_certificate_of_our_authority_does_not_get_in() {
    let authority = Authority::new();
    let registry = world(&authority).await;
    let stranger = Authority::new();
    let mut config = (*stranger.client("user.admin")).clone();
    config = ClientConfig::builder()
        .with_root_certificates(authority.roots.clone())
        .with_client_cert_resolver(config.client_auth_cert_resolver.clone());
    let channel = channel(registry.address, Arc::new(config)).await;
    let refused = soon(register(&mut RegistryClient::new(channel), "a", "host:1")).await;
    assert_eq!(refused.unwrap_err().code(), Code::Unknown);
    use orrery_volumes::ControllerDirectory;
    assert_eq!(registry.directory.list().await.unwrap(), []);
}
