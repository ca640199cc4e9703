//! What each side accepts and refuses, over real handshakes.

use std::sync::Arc;

use orrery_pki::{Authority, ClientAuth, Role, TlsMaterial, Validity};
use rcgen::{CertificateParams, ExtendedKeyUsagePurpose, Issuer, KeyPair};
use rustls::{ClientConfig, ProtocolVersion, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;

use crate::support::{DAY, Seen, connect, mk_authority, mk_request, now};

fn mk_material(authority: &Authority, role: Role, name: &str) -> TlsMaterial {
    let validity = Validity::starting(now(), DAY);
    authority.issue(&mk_request(role, name), validity).unwrap().material().unwrap()
}

fn roots(authority: &Authority) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    let pem = authority.certificate_pem().as_bytes();
    roots.add(CertificateDer::from_pem_slice(pem).unwrap()).unwrap();
    roots
}

/// A client without a certificate, of the versions given.
fn mk_anonymous(
    authority: &Authority,
    versions: &[&'static rustls::SupportedProtocolVersion],
) -> Arc<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_protocol_versions(versions).unwrap();
    Arc::new(builder.with_root_certificates(roots(authority)).with_no_client_auth())
}

#[track_caller]
fn refused(outcome: Result<Seen, String>, reason: &str) {
    let error = outcome.expect_err("must be refused");
    assert!(error.contains(reason), "{error:?} does not say {reason:?}");
}

/// proves: AGT-12
#[tokio::test]
async fn both_sides_know_each_other() {
    let authority = mk_authority();
    let server = mk_material(&authority, Role::Server, "s1");
    let agent = mk_material(&authority, Role::Agent, "edge-1");
    for auth in [ClientAuth::Optional, ClientAuth::Required] {
        let seen = connect(server.server_config(auth), agent.client_config()).await.unwrap();
        assert_eq!(seen.client.as_ref(), Some(agent.identity()));
        assert_eq!(&seen.server, server.identity());
        assert_eq!(seen.alpn.as_deref(), Some(&b"h2"[..]));
        assert_eq!(seen.version, ProtocolVersion::TLSv1_3);
    }
}

/// proves: AGT-12
#[tokio::test]
async fn no_client_certificate() {
    let authority = mk_authority();
    let server = mk_material(&authority, Role::Server, "s1");
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let client = || mk_anonymous(&authority, &[version]);
        let seen = connect(server.server_config(ClientAuth::Optional), client()).await.unwrap();
        assert_eq!((seen.client, seen.version), (None, version.version));
        let refusal = connect(server.server_config(ClientAuth::Required), client()).await;
        refused(refusal, "server: peer sent no certificates");
    }
}

#[tokio::test]
async fn a_tls_1_2_client_with_a_certificate() {
    let authority = mk_authority();
    let server = mk_material(&authority, Role::Server, "s1");
    let agent = mk_material(&authority, Role::Agent, "edge-1");
    let mut old = ClientConfig::clone(&agent.client_config());
    let provider = Arc::clone(old.crypto_provider());
    let resolver = Arc::clone(&old.client_auth_cert_resolver);
    old = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS12])
        .unwrap()
        .with_root_certificates(roots(&authority))
        .with_client_cert_resolver(resolver);
    old.alpn_protocols = vec![b"http/1.1".to_vec()];
    let seen = connect(server.server_config(ClientAuth::Required), Arc::new(old)).await.unwrap();
    assert_eq!(seen.version, ProtocolVersion::TLSv1_2);
    assert_eq!(seen.alpn.as_deref(), Some(&b"http/1.1"[..]));
    assert_eq!(seen.client.as_ref(), Some(agent.identity()));
}

#[tokio::test]
async fn another_authority_is_refused_by_each_side() {
    let (ours, theirs) = (mk_authority(), mk_authority());
    let server = mk_material(&ours, Role::Server, "s1");
    let stranger = mk_material(&theirs, Role::Agent, "edge-1");
    let server_config = || server.server_config(ClientAuth::Optional);

    // The stranger trusts its own authority only, so it is the client that turns away.
    refused(
        connect(server_config(), stranger.client_config()).await,
        "client: invalid peer certificate: UnknownIssuer",
    );

    // A stranger who trusts us shows a certificate that we do not trust. Optional does not help it.
    let issued = theirs.issue(&mk_request(Role::Agent, "edge-1"), Validity::starting(now(), DAY));
    let issued = issued.unwrap();
    let pem = (ours.certificate_pem(), issued.certificate_pem(), issued.key_pem());
    let (root, certificate, key) = (pem.0.as_bytes(), pem.1.as_bytes(), pem.2.as_bytes());
    let stranger = TlsMaterial::from_pem(root, certificate, key).unwrap();
    refused(
        connect(server_config(), stranger.client_config()).await,
        "server: invalid peer certificate: UnknownIssuer",
    );
}

/// Both authorities are trusted while one is rotated: the root file holds two certificates.
#[tokio::test]
async fn two_roots_are_both_trusted() {
    let (old, new) = (mk_authority(), mk_authority());
    let both = format!("{}{}", old.certificate_pem(), new.certificate_pem());
    let issue = |authority: &Authority, role, name| {
        let issued =
            authority.issue(&mk_request(role, name), Validity::starting(now(), DAY)).unwrap();
        let (certificate, key) = (issued.certificate_pem().as_bytes(), issued.key_pem().as_bytes());
        TlsMaterial::from_pem(both.as_bytes(), certificate, key).unwrap()
    };
    let server = issue(&new, Role::Server, "s1");
    for authority in [&old, &new] {
        let agent = issue(authority, Role::Agent, "edge-1");
        let server_config = server.server_config(ClientAuth::Required);
        let seen = connect(server_config, agent.client_config()).await.unwrap();
        assert_eq!(seen.client.as_ref(), Some(agent.identity()));
    }
}

#[tokio::test]
async fn validity_is_judged_on_both_sides() {
    let authority = mk_authority();
    let good = mk_material(&authority, Role::Agent, "good");
    let expired = Validity { not_before: now() - 2 * DAY, not_after: now() - DAY };
    let early = Validity { not_before: now() + DAY, not_after: now() + 2 * DAY };
    for (validity, reason) in
        [(expired, "certificate expired"), (early, "certificate not valid yet")]
    {
        let issued = authority.issue(&mk_request(Role::Agent, "bad"), validity).unwrap();
        let bad = issued.material().unwrap();
        let as_client =
            connect(good.server_config(ClientAuth::Optional), bad.client_config()).await;
        refused(as_client, &format!("server: invalid peer certificate: {reason}"));
        let as_server =
            connect(bad.server_config(ClientAuth::Optional), good.client_config()).await;
        refused(as_server, &format!("client: invalid peer certificate: {reason}"));
    }
}

/// A certificate that is only good for one direction is refused in the other.
#[tokio::test]
async fn usage_is_judged_on_both_sides() {
    let authority = mk_authority();
    let good = mk_material(&authority, Role::Agent, "good");
    let only = |usage| {
        let key = KeyPair::from_pem(&authority.key_pem()).unwrap();
        let issuer = Issuer::from_ca_cert_pem(authority.certificate_pem(), key).unwrap();
        let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        params.extended_key_usages = vec![usage];
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &issuer).unwrap().pem();
        let root = authority.certificate_pem().as_bytes();
        TlsMaterial::from_pem(root, certificate.as_bytes(), key.serialize_pem().as_bytes()).unwrap()
    };
    let server_only = only(ExtendedKeyUsagePurpose::ServerAuth);
    let client_only = only(ExtendedKeyUsagePurpose::ClientAuth);

    let required = |material: &TlsMaterial| material.server_config(ClientAuth::Required);
    assert!(connect(required(&server_only), client_only.client_config()).await.is_ok());
    let wrong_client = connect(required(&good), server_only.client_config()).await;
    refused(wrong_client, "server: invalid peer certificate");
    let wrong_server = connect(required(&client_only), good.client_config()).await;
    refused(wrong_server, "client: invalid peer certificate");
}

#[tokio::test]
async fn a_server_of_another_name_is_refused() {
    let authority = mk_authority();
    let request = orrery_pki::IssueRequest::new(Role::Server, "s1").dns("elsewhere.example");
    let server = authority.issue(&request, Validity::starting(now(), DAY)).unwrap();
    let server = server.material().unwrap();
    let client = mk_material(&authority, Role::User, "ann");
    let outcome = connect(server.server_config(ClientAuth::Optional), client.client_config()).await;
    refused(outcome, "client: invalid peer certificate: certificate not valid for name");
}
