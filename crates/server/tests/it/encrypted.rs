//! The encrypted port: who is answered.
use crate::support::World;
use orrery_pki::{ADMINS, Authority, IssueRequest, Role, TlsMaterial, Validity};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::ResolvesClientCert;

/// A client that has no certificate to show.
#[derive(Debug)]
struct Nobody;

impl ResolvesClientCert for Nobody {
    fn resolve(
        &self,
        _: &[&[u8]],
        _: &[tokio_rustls::rustls::SignatureScheme],
    ) -> Option<Arc<tokio_rustls::rustls::sign::CertifiedKey>> {
        None
    }

    fn has_certs(&self) -> bool {
        false
    }
}

#[allow(clippy::disallowed_methods, reason = "certificates are judged by the real clock")]
pub fn validity() -> Validity {
    Validity::starting(std::time::SystemTime::now(), Duration::from_secs(3600))
}

/// The first line of the answer to a request.
async fn ask(address: SocketAddr, trusts: &TlsMaterial, shows: bool, path: &str) -> String {
    let mut config = (*trusts.client_config()).clone();
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    if !shows {
        config.client_auth_cert_resolver = Arc::new(Nobody);
    }
    let tcp = TcpStream::connect(address).await.unwrap();
    let name = address.ip().into();
    let mut tls = TlsConnector::from(Arc::new(config)).connect(name, tcp).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    tls.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    // A peer that closes without a farewell has still answered.
    let _ = tls.read_to_end(&mut answer).await;
    String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned()
}

/// proves: AGT-12
#[tokio::test]
async fn only_the_known_are_answered_and_everybody_sees_that_it_lives() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::generate(&"orrery.test".parse().unwrap(), validity()).unwrap();
    let issue = |role, name: &str| {
        let request = IssueRequest::new(role, name).ip(Ipv4Addr::LOCALHOST).group(ADMINS);
        authority.issue(&request, validity()).unwrap()
    };
    let server = issue(Role::Server, "server").write_to(folder.path()).unwrap();
    let user = issue(Role::User, "alice").material().unwrap();
    let agent = issue(Role::Agent, "edge-1").material().unwrap();
    let log = folder.path().join("audit.log");
    let world = World::operated(server, crate::audit::operations(&log)).await;
    let cases = [
        (&user, true, "/apis", "200"),
        (&user, false, "/apis", "401"),
        (&user, true, "/api/v1/namespaces", "200"),
        (&agent, true, "/apis", "200"),
        (&agent, true, "/api/v1/namespaces", "403"),
        (&user, false, "/api/v1/namespaces", "401"),
        (&user, false, "/openapi/v3", "401"),
        (&user, false, "/livez", "200"),
        (&user, false, "/version", "200"),
    ];
    for (who, shows, path, code) in cases {
        let answer = ask(world.address.parse().unwrap(), who, shows, path).await;
        assert!(answer.contains(code), "{path}: {answer}, expected {code}");
    }
    let refused = |line: &serde_json::Value| line["user"] == "edge-1" && line["kind"] == "Project";
    let lines = crate::audit::lines(&log, refused).await;
    let line = lines.iter().find(|line| refused(line)).unwrap();
    assert_eq!((&line["allowed"], &line["code"]), (&false.into(), &403.into()), "{line}");
    assert!(lines.iter().any(|line| line["user"] == "alice" && line["allowed"] == true));
}
