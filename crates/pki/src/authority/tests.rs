use std::net::Ipv4Addr;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

use x509_parser::extensions::ParsedExtension;

use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject as _;

use super::*;
use crate::role::Role;

const HOUR: Duration = Duration::from_secs(60 * 60);

/// A fixed instant of 2027: nothing here depends on the day it runs.
fn now() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
}

fn mk_authority(lifetime: Duration) -> Authority {
    let domain = "orrery.test".parse().unwrap();
    Authority::generate(&domain, Validity::starting(now(), lifetime)).unwrap()
}

fn der(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

#[track_caller]
fn check(role: Role, name: &str, expect_cn: Option<&str>, expect_dns: &[&str]) {
    let request = IssueRequest::new(role, name);
    let issued = mk_authority(HOUR).issue(&request, Validity::starting(now(), HOUR)).unwrap();
    let identity = issued.identity();
    assert_eq!((identity.role(), identity.name()), (Some(role), Some(name)));
    assert_eq!(identity.common_name.as_deref(), expect_cn);
    assert_eq!(identity.dns_names, expect_dns);
}

/// proves: VOL-09
#[test]
fn names_by_role() {
    check(Role::Agent, "edge-1", Some("edge-1"), &[]);
    check(Role::Driver, "qemu", Some("qemu"), &[]);
    check(Role::Proxy, "web", Some("web"), &[]);
    check(Role::Server, "s1", Some("component.registry"), &["component.registry"]);
    check(Role::User, "admin", Some("user.admin"), &["user.admin"]);
    check(Role::Controller, "c1", Some("controller.c1"), &["controller.c1"]);
    check(Role::Host, "h1", Some("host.h1"), &["host.h1"]);
    check(Role::Agent, &"a".repeat(64), Some(&"a".repeat(64)), &[]);
    check(Role::Agent, &"a".repeat(65), None, &[]);
}

#[test]
fn a_bad_name_is_refused() {
    for name in ["", "..", "a/b", "a b"] {
        let request = IssueRequest::new(Role::Agent, name);
        let refused = mk_authority(HOUR).issue(&request, Validity::starting(now(), HOUR));
        assert!(matches!(refused, Err(AuthorityError::Name(SpiffeError::Segment(_)))), "{name}");
    }
}

/// What a verifier looks at, read back with another library than the one that wrote it.
#[test]
fn a_peer_certificate_has_its_extensions() {
    let authority = mk_authority(HOUR);
    let request = IssueRequest::new(Role::Server, "s1").dns("localhost").ip(Ipv4Addr::LOCALHOST);
    let issued = authority.issue(&request, Validity::starting(now(), HOUR)).unwrap();
    let (root, leaf) = (der(issued.root_pem()), der(issued.certificate_pem()));
    let (_, root) = x509_parser::parse_x509_certificate(&root).unwrap();
    let (_, leaf) = x509_parser::parse_x509_certificate(&leaf).unwrap();

    assert!(!leaf.is_ca() && leaf.basic_constraints().unwrap().is_some());
    assert!(leaf.key_usage().unwrap().unwrap().value.digital_signature());
    let usage = leaf.extended_key_usage().unwrap().unwrap().value;
    assert!(usage.server_auth && usage.client_auth && !usage.any);
    let names = &leaf.subject_alternative_name().unwrap().unwrap().value.general_names;
    let expect = "URI(spiffe://orrery.test/server/s1) DNSName(component.registry) \
                  DNSName(localhost) IPAddress(7f:00:00:01)";
    assert_eq!(names.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "), expect);
    assert_eq!(authority_key(&leaf), subject_key(&root));
    assert_ne!(subject_key(&leaf), subject_key(&root));
    assert_eq!(leaf.verify_signature(Some(root.public_key())), Ok(()));
}

#[test]
fn the_authority_certificate_may_sign_peers_only() {
    let pem = der(mk_authority(HOUR).certificate_pem());
    let (_, root) = x509_parser::parse_x509_certificate(&pem).unwrap();
    let constraints = root.basic_constraints().unwrap().unwrap();
    assert!(constraints.critical && constraints.value.ca);
    assert_eq!(constraints.value.path_len_constraint, Some(1));
    let usage = root.key_usage().unwrap().unwrap().value;
    assert!(usage.key_cert_sign() && usage.crl_sign() && !usage.digital_signature());
    assert_eq!(
        Identity::from_der(&pem).unwrap().spiffe.unwrap().to_string(),
        "spiffe://orrery.test"
    );
}

fn subject_key(certificate: &X509Certificate<'_>) -> Option<Vec<u8>> {
    certificate.extensions().iter().find_map(|extension| {
        let ParsedExtension::SubjectKeyIdentifier(id) = extension.parsed_extension() else {
            return None;
        };
        Some(id.0.to_vec())
    })
}

fn authority_key(certificate: &X509Certificate<'_>) -> Option<Vec<u8>> {
    certificate.extensions().iter().find_map(|extension| {
        let ParsedExtension::AuthorityKeyIdentifier(id) = extension.parsed_extension() else {
            return None;
        };
        id.key_identifier.as_ref().map(|id| id.0.to_vec())
    })
}

#[test]
fn validity_allows_for_clocks_and_ends_with_the_authority() {
    let authority = mk_authority(2 * HOUR);
    let until = |lifetime| {
        let request = IssueRequest::new(Role::Agent, "a");
        let issued = authority.issue(&request, Validity::starting(now(), lifetime)).unwrap();
        (issued.identity().not_before, issued.identity().not_after)
    };
    let from = now() - Duration::from_secs(300);
    assert_eq!(until(HOUR), (from, now() + HOUR));
    assert_eq!(until(2 * HOUR), (from, now() + 2 * HOUR));
    assert_eq!(until(3 * HOUR), (from, now() + 2 * HOUR));
}

#[test]
fn impossible_validities_are_refused() {
    let domain: TrustDomain = "o".parse().unwrap();
    let epoch = SystemTime::UNIX_EPOCH;
    let far = epoch + Duration::from_secs(253_402_300_800); // The first second of the year 10000.
    for (not_before, not_after) in
        [(now(), now()), (now() + HOUR, now()), (now(), far), (epoch - HOUR, now())]
    {
        let made = Authority::generate(&domain, Validity { not_before, not_after });
        assert!(matches!(made, Err(AuthorityError::Validity)), "{not_before:?} {not_after:?}");
    }
}

#[test]
fn serial_numbers_differ() {
    let authority = mk_authority(HOUR);
    let request = IssueRequest::new(Role::Agent, "a");
    let serial = || {
        let issued = authority.issue(&request, Validity::starting(now(), HOUR)).unwrap();
        issued.identity().serial.clone()
    };
    let (one, other) = (serial(), serial());
    assert_ne!(one, other);
    assert_eq!((one.len(), other.len()), (32, 32));
}

#[test]
fn an_authority_reads_back_and_goes_on_signing() {
    let first = mk_authority(HOUR);
    let again = Authority::from_pem(first.certificate_pem(), &first.key_pem(), None).unwrap();
    assert_eq!(again.trust_domain(), first.trust_domain());
    let issued =
        again.issue(&IssueRequest::new(Role::Agent, "a"), Validity::starting(now(), HOUR)).unwrap();
    let (root, leaf) = (der(first.certificate_pem()), der(issued.certificate_pem()));
    let (_, root) = x509_parser::parse_x509_certificate(&root).unwrap();
    let (_, leaf) = x509_parser::parse_x509_certificate(&leaf).unwrap();
    assert_eq!(leaf.verify_signature(Some(root.public_key())), Ok(()));
    assert_eq!(authority_key(&leaf), subject_key(&root));
}

#[test]
fn what_is_no_authority_is_refused() {
    let (one, other) = (mk_authority(HOUR), mk_authority(HOUR));
    let mismatch = Authority::from_pem(one.certificate_pem(), &other.key_pem(), None);
    assert!(matches!(mismatch, Err(AuthorityError::KeyMismatch)));

    let leaf =
        one.issue(&IssueRequest::new(Role::Agent, "a"), Validity::starting(now(), HOUR)).unwrap();
    let leaf = Authority::from_pem(leaf.certificate_pem(), leaf.key_pem(), None);
    assert!(matches!(leaf, Err(AuthorityError::NotAnAuthority)));

    let garbage = Authority::from_pem("garbage", &one.key_pem(), None);
    assert!(matches!(garbage, Err(AuthorityError::Unreadable(_))));
    let garbage = Authority::from_pem(one.certificate_pem(), "garbage", None);
    assert!(matches!(garbage, Err(AuthorityError::Key(_))));
}

#[test]
fn a_brought_authority_needs_a_trust_domain() {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let (certificate, key) = (params.self_signed(&key).unwrap().pem(), key.serialize_pem());
    let unnamed = Authority::from_pem(&certificate, &key, None);
    assert!(matches!(unnamed, Err(AuthorityError::NoTrustDomain)));
    let named = Authority::from_pem(&certificate, &key, Some("corp".parse().unwrap())).unwrap();
    assert_eq!(named.trust_domain().as_str(), "corp");
}

#[test]
fn files_are_written_privately_and_never_over_an_authority() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("new/pki");
    let authority = mk_authority(HOUR);
    authority.write_to(&dir).unwrap();
    assert!(matches!(authority.write_to(&dir), Err(AuthorityError::Exists(_))));

    let request = IssueRequest::new(Role::Agent, "edge-1");
    let validity = Validity::starting(now(), HOUR);
    let files = authority.issue(&request, validity).unwrap().write_to(&dir).unwrap();
    let renewed = authority.issue(&request, validity).unwrap();
    assert_eq!(renewed.write_to(&dir).unwrap(), files);
    let loaded = files.load().unwrap().expect("all three are given");
    assert_eq!(loaded.identity(), renewed.identity());

    let stranger = mk_authority(HOUR).issue(&request, validity).unwrap().write_to(&dir);
    assert!(matches!(stranger, Err(AuthorityError::Exists(file)) if file.ends_with("ca.pem")));

    let mut names = Vec::new();
    for entry in std::fs::read_dir(&dir).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        names.push(entry.file_name().into_string().unwrap());
    }
    names.sort();
    assert_eq!(names, ["agent-edge-1-key.pem", "agent-edge-1.pem", "ca-key.pem", "ca.pem"]);
}

#[test]
fn debug_shows_no_key() {
    let authority = mk_authority(HOUR);
    let issued = authority
        .issue(&IssueRequest::new(Role::Agent, "a"), Validity::starting(now(), HOUR))
        .unwrap();
    let shown = format!("{authority:?} {issued:?} {:?}", issued.material().unwrap());
    assert!(shown.contains("spiffe") && shown.contains("orrery.test"), "{shown}");
    for pem in [&*authority.key_pem(), issued.key_pem()] {
        let secret = pem.lines().nth(1).expect("the first line of base64");
        assert!(!shown.contains(secret) && !shown.contains("PRIVATE"), "{shown}");
    }
}
