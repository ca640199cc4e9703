//! What peers prove with who they are: tokens, requests for certificates, keys of issuers.
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use orrery_access::oidc::{KeySet, fuzz_token};
use orrery_api::parse_json;
use orrery_pki::{
    BearerToken, CertificateRequest, Fingerprint, Identity, JoinToken, Role, TrustDomain,
};
use orrery_seal::{Keyring, is_sealed, sealed_by};
use std::sync::OnceLock;

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// Tokens are written as they were read, and their hash can be stored.
pub fn token(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    if let Ok(token) = text.parse::<JoinToken>() {
        let again: JoinToken = token.to_text().parse().expect("what we wrote ourselves");
        assert!(again.id() == token.id() && again.hash() == token.hash());
    }
    if let Some(token) = BearerToken::parse(text) {
        let again = BearerToken::parse(&token.to_text()).expect("what we wrote ourselves");
        assert!(again.id() == token.id() && again.hash() == token.hash());
    }
    if let Some(fingerprint) = Fingerprint::parse(text) {
        assert_eq!(Fingerprint::parse(&fingerprint.to_string()), Some(fingerprint));
    }
}

/// The keys of an issuer, of RFC 7515 and RFC 7517: their private halves are not used anywhere.
const ISSUER: &str = r#"{"keys":[{"kty":"EC","crv":"P-256","kid":"e","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}]}"#;

pub fn oidc_token(bytes: &[u8]) {
    static KEYS: OnceLock<KeySet> = OnceLock::new();
    let keys = KEYS.get_or_init(|| {
        let keys = KeySet::read(&serde_json::from_str(ISSUER).expect("a document"));
        assert!(!keys.is_empty());
        keys
    });
    text(bytes).into_iter().for_each(|text| fuzz_token(text, keys));
}

/// Whatever an issuer says its keys are, tokens are judged by them.
pub fn oidc_keys(bytes: &[u8]) {
    let Ok(document) = parse_json(bytes) else { return };
    let keys = KeySet::read(&document);
    assert!(keys.has(None) != keys.is_empty());
    fuzz_token(super::OIDC_TOKEN, &keys);
}

/// A request for a certificate, in base64: what it asks for is checked before it is signed.
pub fn request(bytes: &[u8]) {
    let der = text(bytes).and_then(|text| BASE64.decode(text.trim()).ok());
    for der in [der.as_deref(), Some(bytes)].into_iter().flatten() {
        let Ok(request) = CertificateRequest::from_der(der) else { continue };
        let domain: TrustDomain = "orrery.test".parse().expect("a domain");
        let _ = request.check(&domain, Role::Agent, "n1");
        assert!(!request.public_key().is_empty());
    }
}

pub fn pem(bytes: &[u8]) {
    let _ = Identity::of_pem(bytes);
}

/// What nobody of ours has sealed is never opened.
pub fn sealed(bytes: &[u8]) {
    static RING: OnceLock<Keyring> = OnceLock::new();
    let ring = RING.get_or_init(Keyring::generate);
    assert!(ring.open(b"here", bytes).is_err(), "it is not ours");
    assert!(!ring.is_current(bytes));
    assert!(is_sealed(bytes) || sealed_by(bytes).is_err());
    let ours = ring.seal(b"here", bytes);
    assert_eq!(ring.open(b"here", &ours).expect("our own").as_slice(), bytes);
}

pub fn keyring(bytes: &[u8]) {
    let Some(Ok(ring)) = text(bytes).map(str::parse::<Keyring>) else { return };
    let again: Keyring = ring.to_text().parse().expect("what we wrote ourselves");
    assert!(again.ids().eq(ring.ids()));
}
