use proptest::prelude::*;
use rcgen::{CertificateParams, CustomExtension, DnType, KeyPair, SanType};
use rustls_pki_types::pem::PemObject;

use super::*;
use crate::{Authority, IssueRequest, Validity};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
const NOW: Duration = Duration::from_secs(1_800_000_000);

/// A self-signed certificate with these names: `uri:`, `dns:`, `cn:`, one word each.
fn mk_certificate(names: &str) -> Vec<u8> {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    for name in names.split_whitespace() {
        match name.split_once(':').expect("kind:value") {
            ("uri", uri) => params.subject_alt_names.push(SanType::URI(uri.try_into().unwrap())),
            ("dns", dns) => {
                params.subject_alt_names.push(SanType::DnsName(dns.try_into().unwrap()))
            }
            ("cn", name) => params.distinguished_name.push(DnType::CommonName, name),
            (kind, _) => panic!("no such kind of name: {kind}"),
        }
    }
    let key = KeyPair::generate().unwrap();
    params.self_signed(&key).unwrap().der().to_vec()
}

/// Role and name, DNS names, common name.
type Names<'a> = (Option<(Role, &'a str)>, &'a str, Option<&'a str>);

#[track_caller]
fn check(names: &str, expect: Result<Names<'_>, IdentityError>) {
    let found = Identity::from_der(&mk_certificate(names));
    let found = found.as_ref().map_err(Clone::clone).map(|identity| {
        (identity.peer(), identity.dns_names.join(" "), identity.common_name.as_deref())
    });
    assert_eq!(found, expect.map(|(peer, dns, cn)| (peer, dns.to_owned(), cn)), "{names}");
}

#[test]
fn names_in_a_certificate() {
    let agent = |name| Some((Role::Agent, name));
    check("", Ok((None, "", None)));
    check("cn:web", Ok((None, "", Some("web"))));
    check("uri:spiffe://o/agent/a", Ok((agent("a"), "", None)));
    check("dns:a.b dns:host.x uri:spiffe://o/agent/a", Ok((agent("a"), "a.b host.x", None)));
    check("uri:https://example.org uri:spiffe://o/agent/a", Ok((agent("a"), "", None)));
    check("uri:spiffe://cluster.local/ns/x/sa/y", Ok((None, "", None)));
    check("uri:spiffe://o/agent/a uri:spiffe://o/agent/b", Err(IdentityError::ManySpiffeIds));
    check("uri:spiffe://o/agent/a uri:spiffe://o/agent/a", Err(IdentityError::ManySpiffeIds));
    let upper = SpiffeError::Scheme("SPIFFE://o/agent/a".into());
    check("uri:SPIFFE://o/agent/a", Err(upper.into()));
    let dots = SpiffeError::Segment("..".into());
    check("uri:spiffe://o/agent/../server/s", Err(dots.into()));
}

/// rcgen keeps one value per name type, so the common names go through the directory name by hand:
/// two relative names of four letters, spliced over a certificate that has a longer organization.
#[test]
fn two_common_names_are_refused() {
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "aaaa");
    params.distinguished_name.push(DnType::OrganizationName, "bbbb");
    let mut der = params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec();
    // 2.5.4.10 is the organization, 2.5.4.3 the common name.
    let organization = [0x55, 0x04, 0x0a];
    let at = |der: &[u8]| der.windows(3).position(|window| window == organization);
    while let Some(found) = at(&der) {
        der[found + 2] = 0x03;
    }
    assert_eq!(Identity::from_der(&der), Err(IdentityError::ManyCommonNames));
}

#[test]
fn a_malformed_alternative_name_is_refused() {
    // A DNS name (context tag 2) whose byte is not UTF-8.
    let extension =
        CustomExtension::from_oid_content(&[2, 5, 29, 17], vec![0x30, 3, 0x82, 1, 0xff]);
    let mut params = CertificateParams::default();
    params.custom_extensions.push(extension);
    let der = params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec();
    assert_eq!(Identity::from_der(&der), Err(IdentityError::MalformedName));
}

#[test]
fn an_empty_chain_is_no_identity() {
    assert_eq!(Identity::from_chain(&[]), Err(IdentityError::NoCertificate));
}

#[test]
fn bytes_after_the_certificate_are_refused() {
    let mut der = mk_certificate("cn:web");
    der.push(0);
    let expect = IdentityError::Malformed("there are bytes after its end".into());
    assert_eq!(Identity::from_der(&der), Err(expect));
}

#[test]
fn dns_names_compare_without_case() {
    let identity = Identity::from_der(&mk_certificate("dns:Controller.A")).unwrap();
    assert!(identity.has_dns_name("controller.a"));
    assert!(!identity.has_dns_name("controller.ab"));
    assert!(!identity.has_dns_name("*.a"));
}

#[test]
fn serial_times_and_fingerprint_are_read() {
    let mut params = CertificateParams::default();
    params.serial_number = Some(rcgen::SerialNumber::from_slice(&[0x4f, 0x00, 0xa1]));
    params.not_before = rcgen::date_time_ymd(1969, 12, 31);
    params.not_after = rcgen::date_time_ymd(2100, 1, 1);
    let der = params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec();
    let identity = Identity::from_der(&der).unwrap();
    assert_eq!(identity.serial, "4f00a1");
    assert_eq!(identity.not_before, SystemTime::UNIX_EPOCH - DAY);
    assert_eq!(identity.not_after, SystemTime::UNIX_EPOCH + Duration::from_secs(4_102_444_800));
    assert_eq!(identity.fingerprint, Fingerprint::of(&der));
    assert_eq!(Fingerprint::of(b"").to_string()[..16], *"e3b0c44298fc1c14");
}

/// One certificate for all cases: the keys are the slow part.
fn sample() -> &'static [u8] {
    static SAMPLE: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    SAMPLE.get_or_init(|| {
        let validity = Validity::starting(SystemTime::UNIX_EPOCH + NOW, DAY);
        let authority = Authority::generate(&"o".parse().unwrap(), validity).unwrap();
        let request = IssueRequest::new(Role::Agent, "edge-1").dns("edge-1.example");
        let issued = authority.issue(&request, validity).unwrap();
        let pem = issued.certificate_pem().as_bytes();
        CertificateDer::from_pem_slice(pem).unwrap().to_vec()
    })
}

proptest! {
    #[test]
    fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..512)) {
        prop_assert!(Identity::from_der(&bytes).is_err());
    }

    /// Whatever a changed certificate states, nothing panics and the fingerprint is another.
    #[test]
    fn changed_certificates_are_answered(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        keep in any::<prop::sample::Index>(),
        cut in any::<bool>(),
    ) {
        let mut der = sample().to_vec();
        for (at, byte) in changes {
            let at = at.index(der.len());
            der[at] = byte;
        }
        if cut {
            der.truncate(keep.index(der.len()));
        }
        if let Ok(identity) = Identity::from_der(&der) {
            prop_assert_eq!(identity.fingerprint == Fingerprint::of(sample()), der == sample());
            prop_assert_eq!(identity.role().is_some(), identity.name().is_some());
        }
    }
}
