//! What is wrong with a file is said by name, before anything is connected.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use orrery_pki::{Error, Role, TlsFiles, Validity};
use rcgen::{KeyPair, PKCS_ECDSA_P256_SHA256};
use tempfile::TempDir;

use crate::support::{DAY, mk_authority, mk_request, now};

/// A good set of files, to be spoilt one at a time.
struct World {
    _dir: TempDir,
    files: TlsFiles,
}

impl World {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let issued = mk_authority()
            .issue(&mk_request(Role::Agent, "edge-1"), Validity::starting(now(), DAY))
            .unwrap();
        let files = issued.write_to(dir.path()).unwrap();
        Self { _dir: dir, files }
    }

    fn path(&self, part: &str) -> PathBuf {
        let path = match part {
            "root" => &self.files.root,
            "certificate" => &self.files.certificate,
            "key" => &self.files.key,
            _ => panic!("no such part: {part}"),
        };
        path.clone().expect("all three are given")
    }

    fn text(&self, part: &str) -> String {
        fs::read_to_string(self.path(part)).unwrap()
    }

    fn load_error(&self) -> Error {
        self.files.load().expect_err("must be refused")
    }
}

fn write(path: &Path, bytes: impl AsRef<[u8]>) {
    fs::write(path, bytes).unwrap();
}

/// Spoils one file and checks what is said; `FILE` in `expect` stands for its path.
#[track_caller]
fn check(part: &str, spoil: impl FnOnce(&World, &Path), expect: &str) {
    let world = World::new();
    let path = world.path(part);
    spoil(&world, &path);
    let said = world.load_error().to_string();
    let expect = expect.replace("FILE", &path.display().to_string());
    assert!(said.contains(&expect), "{said:?} does not say {expect:?}");
}

const PARTS: [&str; 3] = ["root", "certificate", "key"];

/// proves: AGT-13
#[test]
fn permission_is_400_or_600_and_nothing_else() {
    let world = World::new();
    for part in PARTS {
        let path = world.path(part);
        for mode in 0..=0o777 {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            match (mode, world.files.load()) {
                (0o400 | 0o600, loaded) => assert!(loaded.unwrap().is_some()),
                (_, Err(Error::Permission { file, mode: found })) => {
                    assert_eq!((file, found), (path.clone(), mode));
                }
                (_, other) => panic!("mode {mode:o} of {part}: {other:?}"),
            }
        }
        fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    }
}

/// proves: AGT-13
/// A bundle of public authorities belongs to the system and is there for everybody.
#[test]
fn a_public_root_may_be_read_by_all_and_changed_by_its_owner_only() {
    let world = World::new();
    let root = world.path("root");
    for (mode, works) in
        [(0o400, true), (0o600, true), (0o644, true), (0o444, true), (0o664, false), (0o646, false)]
    {
        fs::set_permissions(&root, Permissions::from_mode(mode)).unwrap();
        let found = orrery_pki::publicly_rooted_client_config(&root);
        assert_eq!(found.is_ok(), works, "{mode:o}");
        if let Err(error) = found {
            assert!(
                error.to_string().ends_with(&format!("chmod go-w {}", root.display())),
                "{error}"
            );
        }
    }
}

#[test]
fn a_refused_permission_says_what_to_run() {
    for (mode, expect) in [
        (0o644, "FILE has unix permission 644, only 400 and 600 are accepted; run: chmod 600 FILE"),
        (0o004, "FILE has unix permission 004"),
        (0o000, "FILE has unix permission 000"),
    ] {
        for part in PARTS {
            let chmod = |_: &World, path: &Path| {
                fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
            };
            check(part, chmod, expect);
        }
    }
}

#[test]
fn a_link_is_judged_by_what_it_points_to() {
    let world = World::new();
    let key = world.path("key");
    let moved = key.with_extension("moved");
    fs::rename(&key, &moved).unwrap();
    std::os::unix::fs::symlink(&moved, &key).unwrap();
    assert!(world.files.load().unwrap().is_some());
    fs::set_permissions(&moved, Permissions::from_mode(0o640)).unwrap();
    assert!(matches!(world.load_error(), Error::Permission { file, mode: 0o640 } if file == key));
}

#[test]
fn what_is_no_file() {
    for part in PARTS {
        check(part, |_, path| fs::remove_file(path).unwrap(), "FILE does not exist");
        let directory = |_: &World, path: &Path| {
            fs::remove_file(path).unwrap();
            fs::create_dir(path).unwrap();
        };
        check(part, directory, "FILE is not a regular file");
        check(part, |_, path| write(path, vec![b'\n'; (1 << 20) + 1]), "FILE is larger than");
    }
}

#[test]
fn what_is_no_certificate() {
    for part in ["root", "certificate"] {
        let no_certificate = "FILE holds no certificate";
        check(part, |_, path| write(path, ""), no_certificate);
        check(part, |_, path| write(path, "hello"), no_certificate);
        check(part, |_, path| write(path, [0xff, 0xfe, 0x00]), no_certificate);
        check(part, |world, path| write(path, world.text("key")), no_certificate);
        let half = |world: &World, path: &Path| write(path, &world.text(part)[..200]);
        check(part, half, "FILE is not valid PEM: a section has no END line");
        let bad = "-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n";
        check(part, |_, path| write(path, bad), "FILE is not valid PEM: a section is not base64");
        let zeros = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        check(part, |_, path| write(path, zeros), "certificate 1 in FILE cannot be used");
        let second = |world: &World, path: &Path| write(path, world.text(part) + zeros);
        check(part, second, "certificate 2 in FILE cannot be used");
    }
}

#[test]
fn what_is_no_key() {
    let check = |text: &dyn Fn(&World) -> String, expect: &str| {
        check("key", |world, path| write(path, text(world)), expect);
    };
    check(&|_| String::new(), "FILE holds no private key");
    check(&|world| world.text("certificate"), "FILE holds no private key");
    check(&|world| world.text("key").repeat(2), "FILE holds 2 private keys, keep exactly one");
    check(&|world| world.text("key").repeat(3), "FILE holds 3 private keys, keep exactly one");
    check(&|world| world.text("key")[..100].to_owned(), "FILE is not valid PEM");
    let pem = |label: &str, body: &str| {
        format!("-----BEGIN {label}-----\n{body}\n-----END {label}-----\n")
    };
    check(&|_| pem("PRIVATE KEY", "????"), "FILE is not valid PEM: a section is not base64");
    check(&|_| pem("PRIVATE KEY", "AAAA"), "the private key in FILE cannot be used");
    check(&|_| pem("ENCRYPTED PRIVATE KEY", "AAAA"), "the private key in FILE is encrypted");
    let old = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA";
    check(&|_| pem("RSA PRIVATE KEY", old), "the private key in FILE is encrypted");
    let other = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).unwrap();
    check(
        &|_| other.serialize_pem(),
        "the private key in FILE does not belong to the certificate in",
    );
}

#[test]
fn certificate_and_key_may_share_a_file() {
    let world = World::new();
    let both = world.text("key") + &world.text("certificate");
    write(&world.path("certificate"), both);
    let shared = world.files.certificate.clone();
    let files = TlsFiles { key: shared, ..world.files.clone() };
    assert!(files.load().unwrap().is_some());
}

/// Whatever stands in a key file, none of it is repeated to the screen or a log.
#[test]
fn errors_show_nothing_of_a_key() {
    let world = World::new();
    let good = world.text("key");
    let secret = good.lines().nth(1).unwrap().to_owned();
    let spoilt = [
        good.replace("-----END", "----END"),
        good.replace("-----BEGIN PRIVATE KEY-----", &format!("-----BEGIN {secret}")),
        good.replace(&secret, &format!("?{secret}")),
        good.repeat(2),
        good.replacen(&secret, &format!("AAAA{secret}"), 1),
    ];
    for text in spoilt {
        write(&world.path("key"), text);
        let error = world.load_error();
        assert!(!format!("{error} {error:?}").contains(&secret[..16]), "{error:?}");
    }
}
