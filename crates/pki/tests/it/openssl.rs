//! Certificates and keys made by `openssl`, in every form people bring them.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use orrery_pki::{
    Authority, CertificateRequest, ClientAuth, Error, IssueRequest, RequestError, Role, TlsFiles,
    TlsMaterial, Validity,
};
use tempfile::TempDir;

use crate::support::{DAY, connect, now};

const LEAF_EXTENSIONS: &str = "basicConstraints=critical,CA:FALSE\n\
    keyUsage=critical,digitalSignature\n\
    extendedKeyUsage=serverAuth,clientAuth\n\
    subjectAltName=DNS:localhost,DNS:host.h1,URI:spiffe://corp.test/host/h1\n";
const AUTHORITY_EXTENSIONS: &str =
    "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign\n";

/// A directory in which `openssl` works, with an authority `root.pem` and `root.key`.
struct Bench {
    dir: TempDir,
}

impl Bench {
    fn new() -> Self {
        let bench = Self { dir: tempfile::tempdir().unwrap() };
        bench.write("leaf.ext", LEAF_EXTENSIONS);
        bench.write("ca.ext", AUTHORITY_EXTENSIONS);
        bench.key("root", "EC -pkeyopt ec_paramgen_curve:P-256");
        bench.run(
            "req -x509 -new -key root.key -subj /CN=Corp -days 2 -out root.pem \
                   -addext keyUsage=critical,keyCertSign",
        );
        bench
    }

    /// Runs `openssl` with these words and expects it to succeed.
    #[track_caller]
    fn run(&self, words: &str) {
        let output = Command::new("openssl")
            .args(words.split_whitespace())
            .current_dir(self.dir.path())
            .output()
            .expect("openssl runs (Debian package openssl)");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "openssl {words}: {said}");
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// `NAME.key`, in PKCS#8.
    fn key(&self, name: &str, algorithm: &str) {
        self.run(&format!("genpkey -algorithm {algorithm} -out {name}.key"));
    }

    /// `NAME.pem` for `NAME.key`, signed by `issuer`.
    fn sign(&self, name: &str, issuer: &str, extensions: &str) {
        self.run(&format!("req -new -key {name}.key -subj /CN={name} -out {name}.csr"));
        self.run(&format!(
            "x509 -req -in {name}.csr -CA {issuer}.pem -CAkey {issuer}.key -CAcreateserial -days 1 \
             -extfile {extensions}.ext -out {name}.pem"
        ));
    }

    fn load(&self, certificate: &str, key: &str) -> Result<TlsMaterial, Error> {
        let private = |name: &str| {
            let path = self.path(name);
            fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
            Some(path)
        };
        let files = TlsFiles {
            root: private("root.pem"),
            certificate: private(certificate),
            key: private(key),
        };
        files.load().map(|material| material.expect("all three are given"))
    }
}

/// Loads the pair and lets it talk to itself, as server and as client.
async fn talks(bench: &Bench, certificate: &str, key: &str) {
    let material = bench.load(certificate, key).unwrap_or_else(|error| panic!("{key}: {error}"));
    let server = material.server_config(ClientAuth::Required);
    let seen = connect(server, material.client_config()).await.expect("both are good");
    let client = seen.client.expect("a certificate was demanded");
    assert_eq!((client.role(), client.name()), (Some(Role::Host), Some("h1")));
    assert!(client.has_dns_name("host.h1"));
    assert_eq!(client.common_name.as_deref(), Some("leaf"));
}

/// proves: AGT-13
#[tokio::test]
async fn every_key_type_and_form() {
    let bench = Bench::new();
    // The algorithm, and the command for its older form if it has one.
    let rsa = "RSA -pkeyopt rsa_keygen_bits:2048";
    for (algorithm, older) in [
        (rsa, Some("rsa -traditional")),
        ("RSA -pkeyopt rsa_keygen_bits:3072", None),
        ("EC -pkeyopt ec_paramgen_curve:P-256", Some("ec")),
        ("EC -pkeyopt ec_paramgen_curve:P-384", Some("ec")),
        ("ED25519", None),
    ] {
        bench.key("leaf", algorithm);
        bench.sign("leaf", "root", "leaf");
        talks(&bench, "leaf.pem", "leaf.key").await;
        if let Some(command) = older {
            bench.run(&format!("{command} -in leaf.key -out older.key"));
            assert_ne!(bench.text("older.key"), bench.text("leaf.key"));
            talks(&bench, "leaf.pem", "older.key").await;
        }
    }
}

/// `openssl ecparam -genkey` puts the curve's parameters in front of the key.
#[tokio::test]
async fn a_key_behind_its_curve_parameters() {
    let bench = Bench::new();
    bench.run("ecparam -name prime256v1 -genkey -out leaf.key");
    assert!(bench.text("leaf.key").starts_with("-----BEGIN EC PARAMETERS-----"));
    bench.sign("leaf", "root", "leaf");
    talks(&bench, "leaf.pem", "leaf.key").await;
}

/// proves: AGT-13
#[tokio::test]
async fn a_chain_with_an_intermediate() {
    let bench = Bench::new();
    bench.key("middle", "EC -pkeyopt ec_paramgen_curve:P-384");
    bench.sign("middle", "root", "ca");
    bench.key("leaf", "ED25519");
    bench.sign("leaf", "middle", "leaf");
    bench.write("chain.pem", &(bench.text("leaf.pem") + &bench.text("middle.pem")));
    talks(&bench, "chain.pem", "leaf.key").await;

    // Without the intermediate the same certificate proves nothing.
    let alone = bench.load("leaf.pem", "leaf.key").unwrap();
    let server = alone.server_config(ClientAuth::Required);
    let refused = connect(server, alone.client_config()).await.expect_err("unknown issuer");
    assert!(refused.contains("invalid peer certificate"), "{refused}");

    // In the wrong order the key does not belong to the first certificate.
    bench.write("reversed.pem", &(bench.text("middle.pem") + &bench.text("leaf.pem")));
    let reversed = bench.load("reversed.pem", "leaf.key");
    assert!(matches!(reversed, Err(Error::KeyMismatch { .. })), "{reversed:?}");
}

#[test]
fn keys_that_cannot_be_used_are_refused_by_name() {
    let bench = Bench::new();
    bench.key("leaf", "EC -pkeyopt ec_paramgen_curve:P-256");
    bench.sign("leaf", "root", "leaf");
    bench.run("pkey -in leaf.key -aes256 -passout pass:x -out encrypted.key");
    bench.run("ec -in leaf.key -aes256 -passout pass:x -out older.key");
    bench.key("small", "RSA -pkeyopt rsa_keygen_bits:1024");
    bench.key("curve", "EC -pkeyopt ec_paramgen_curve:secp256k1");
    for (key, expect) in [
        ("encrypted.key", "is encrypted; decrypt it: openssl pkey -in"),
        ("older.key", "is encrypted; decrypt it: openssl pkey -in"),
        ("small.key", "cannot be used"),
        ("curve.key", "cannot be used"),
    ] {
        let said = bench.load("leaf.pem", key).expect_err("must be refused").to_string();
        assert!(said.contains(expect) && said.contains(key), "{key}: {said}");
    }
}

/// The other direction: `openssl` accepts what our authority issues, chain, times and purposes.
#[test]
fn openssl_verifies_what_we_issue() {
    let bench = Bench::new();
    let authority = crate::support::mk_authority();
    let request = crate::support::mk_request(Role::Server, "s1");
    let validity = orrery_pki::Validity::starting(crate::support::now(), crate::support::DAY);
    let issued = authority.issue(&request, validity).unwrap();
    issued.write_to(Path::new(bench.dir.path())).unwrap();
    for purpose in ["sslserver", "sslclient"] {
        bench.run(&format!(
            "verify -x509_strict -purpose {purpose} -CAfile ca.pem -verify_hostname localhost \
             server-s1.pem"
        ));
    }
}

/// An authority of the user's signs for us, whatever its key is and however it is written.
#[tokio::test]
async fn an_authority_with_every_key_type_and_form_signs() {
    let bench = Bench::new();
    let kinds = [
        ("RSA -pkeyopt rsa_keygen_bits:2048", Some("rsa -traditional")),
        ("EC -pkeyopt ec_paramgen_curve:P-256", Some("ec")),
        ("EC -pkeyopt ec_paramgen_curve:P-384", Some("ec")),
        ("ED25519", None),
    ];
    for (kind, old_form) in kinds {
        bench.key("ca", kind);
        bench.run("req -x509 -new -key ca.key -subj /O=Corp/CN=Corp -days 2 -out ca.pem \
                   -addext keyUsage=critical,keyCertSign");
        let mut keys = vec![bench.text("ca.key")];
        if let Some(old_form) = old_form {
            bench.run(&format!("{old_form} -in ca.key -out ca.old"));
            keys.push(bench.text("ca.old"));
        }
        for key in keys {
            let domain = Some("corp.test".parse().unwrap());
            let authority = Authority::from_pem(&bench.text("ca.pem"), &key, domain).unwrap();
            let request = IssueRequest::new(Role::Server, "s").dns("localhost");
            let issued = authority.issue(&request, Validity::starting(now(), DAY)).unwrap();
            let material = issued.material().unwrap();
            let config = material.server_config(ClientAuth::Required);
            let seen = connect(config, material.client_config()).await;
            assert!(seen.is_ok(), "{kind}: {seen:?}");
            bench.write("issued.pem", issued.certificate_pem());
            bench.run("verify -CAfile ca.pem issued.pem");
        }
    }
}

/// A request of `openssl` is signed like one of ours, and asks for nothing that it may not have.
#[test]
fn requests_made_by_openssl() {
    let bench = Bench::new();
    let domain = "corp.test".parse().unwrap();
    let authority =
        Authority::from_pem(&bench.text("root.pem"), &bench.text("root.key"), Some(domain)).unwrap();
    let read = |subject: &str, more: &str| {
        bench.run(&format!(
            "req -new -key peer.key -subj {subject} {more} -outform DER -out peer.csr"
        ));
        CertificateRequest::from_der(&fs::read(bench.path("peer.csr")).unwrap()).unwrap()
    };
    for kind in [
        "RSA -pkeyopt rsa_keygen_bits:2048",
        "EC -pkeyopt ec_paramgen_curve:P-256",
        "EC -pkeyopt ec_paramgen_curve:P-384",
        "ED25519",
    ] {
        bench.key("peer", kind);
        let request = read("/CN=edge-1", "");
        request.check(authority.trust_domain(), Role::Agent, "edge-1").unwrap();
        let wanted = IssueRequest::new(Role::Agent, "edge-1");
        let signed = authority.sign(&request, &wanted, Validity::starting(now(), DAY)).unwrap();
        assert_eq!(signed.identity.name(), Some("edge-1"), "{kind}");
        assert_eq!(signed.identity.key, request.key(), "{kind}");
        let root = bench.text("root.pem");
        let (certificate, key) = (signed.certificate_pem.as_bytes(), bench.text("peer.key"));
        TlsMaterial::from_pem(root.as_bytes(), certificate, key.as_bytes()).unwrap();
    }
    for (subject, more) in [
        ("/CN=admin", ""),
        ("/CN=edge-1", "-addext subjectAltName=URI:spiffe://corp.test/user/admin"),
        ("/CN=edge-1", "-addext subjectAltName=URI:spiffe://corp.test/agent/edge-2"),
        ("/CN=edge-1", "-addext subjectAltName=DNS:component.registry"),
        ("/CN=edge-1", "-addext subjectAltName=IP:127.0.0.1"),
        ("/CN=edge-1", "-addext basicConstraints=critical,CA:TRUE"),
    ] {
        let refused = read(subject, more)
            .check(authority.trust_domain(), Role::Agent, "edge-1")
            .expect_err("it asks for something else");
        assert!(
            matches!(refused, RequestError::OtherName { .. } | RequestError::Authority),
            "{subject} {more}: {refused}"
        );
    }
    let mut forged = fs::read(bench.path("peer.csr")).unwrap();
    let last = forged.len() - 1;
    forged[last] ^= 1;
    assert!(CertificateRequest::from_der(&forged).is_err(), "its maker does not hold the key");
}
