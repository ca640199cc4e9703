//! Certificates and keys made by `openssl`, in every form people bring them.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use orrery_pki::{ClientAuth, Error, Role, TlsFiles, TlsMaterial};
use tempfile::TempDir;

use crate::support::connect;

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
