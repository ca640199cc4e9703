//! Which service a connected proxy fronts, and therefore what it may see.
//!
//! The certificate decides. Its SPIFFE id says `proxy/<service>[.<project>[.<instance>]]`; a
//! certificate without any SPIFFE id is read by its common name in the same form. What the proxy says
//! of itself must agree. On a plain connection, which a server takes on loopback only, there is no
//! proof, and what the proxy says of itself counts.
use crate::names::{InvalidName, ProxyName, ServiceName};
use orrery_pki::{Identity, Role, TrustDomain};
use std::net::SocketAddr;

/// Whom a transport talks to. The transport puts one into the extensions of every request.
#[derive(Clone, Debug, Default)]
pub struct Peer {
    /// From its verified certificate.
    pub identity: Option<Identity>,
    /// True when the connection is encrypted, so that an identity can be demanded.
    pub encrypted: bool,
    pub address: Option<SocketAddr>,
}

/// Why a proxy is not served.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("a proxy must show a client certificate on an encrypted connection")]
    NoCertificate,
    #[error(
        "the certificate says {0:?}, which is no proxy; its SPIFFE id must be spiffe://<trust domain>/proxy/<service>.<project>"
    )]
    NotAProxy(String),
    #[error("the certificate is of trust domain {0}, which is not ours")]
    OtherTrustDomain(String),
    #[error("the certificate names no service: {0}")]
    BadName(#[from] InvalidName),
    #[error("the certificate is for {proven}, but the proxy says that it fronts {claimed:?}")]
    Mismatch { proven: ServiceName, claimed: String },
    #[error("the proxy does not say which service it fronts: set node.cluster to <project>/<name>")]
    NoClaim,
}

/// What `peer` is called, and so which service it fronts; `claimed` is what the proxy says of that, possibly nothing.
pub fn admit(
    peer: &Peer,
    claimed: &str,
    trust_domain: Option<&TrustDomain>,
) -> Result<ProxyName, Refusal> {
    let Some(identity) = &peer.identity else {
        return if peer.encrypted { Err(Refusal::NoCertificate) } else { by_claim(claimed) };
    };
    let proven = proven_name(identity, trust_domain)?;
    let service = proven.service();
    if claimed.is_empty() || claimed.parse().as_ref() == Ok(&service) {
        return Ok(proven);
    }
    Err(Refusal::Mismatch { proven: service, claimed: claimed.to_owned() })
}

fn by_claim(claimed: &str) -> Result<ProxyName, Refusal> {
    if claimed.is_empty() {
        return Err(Refusal::NoClaim);
    }
    Ok(ProxyName::of(&claimed.parse()?))
}

fn proven_name(
    identity: &Identity,
    trust_domain: Option<&TrustDomain>,
) -> Result<ProxyName, Refusal> {
    let Some(spiffe) = &identity.spiffe else {
        let name = identity.common_name.as_deref();
        let name: ProxyName = name.ok_or_else(|| Refusal::NotAProxy(String::new()))?.parse()?;
        // What more a common name says may not fit into a SPIFFE id, and nothing refers to it.
        return Ok(ProxyName::of(&name.service()));
    };
    if trust_domain.is_some_and(|ours| ours != spiffe.trust_domain()) {
        return Err(Refusal::OtherTrustDomain(spiffe.trust_domain().to_string()));
    }
    match spiffe.peer() {
        Some((Role::Proxy, name)) => Ok(name.parse()?),
        Some(_) | None => Err(Refusal::NotAProxy(spiffe.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_pki::{Authority, IssueRequest, Validity};
    use std::time::{Duration, SystemTime};

    fn identity(role: Role, name: &str) -> Identity {
        let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let validity = Validity::starting(start, Duration::from_secs(3600));
        let domain: TrustDomain = "example.org".parse().unwrap();
        let authority = Authority::generate(&domain, validity).unwrap();
        let issued = authority.issue(&IssueRequest::new(role, name), validity).unwrap();
        issued.identity().clone()
    }

    #[track_caller]
    fn check(
        identity: Option<Identity>,
        encrypted: bool,
        claimed: &str,
        expect: Result<&str, &str>,
    ) {
        let peer = Peer { identity, encrypted, address: None };
        let domain: TrustDomain = "example.org".parse().unwrap();
        let admitted = admit(&peer, claimed, Some(&domain));
        match (admitted, expect) {
            (Ok(name), Ok(expect)) => {
                assert_eq!(format!("{} {name}", name.service()), expect);
            }
            (Err(refusal), Err(expect)) => {
                assert!(refusal.to_string().contains(expect), "{refusal}");
            }
            (admitted, expect) => panic!("{admitted:?} instead of {expect:?}"),
        }
    }

    /// proves: MSH-02
    #[test]
    fn the_certificate_decides() {
        let proxy = |name: &str| Some(identity(Role::Proxy, name));
        check(proxy("books"), true, "", Ok("default/books books"));
        check(proxy("books.shop"), true, "", Ok("shop/books books.shop"));
        check(proxy("books.shop"), true, "shop/books", Ok("shop/books books.shop"));
        check(proxy("books.shop.i-1"), true, "shop/books", Ok("shop/books books.shop.i-1"));
        check(proxy("books.shop"), true, "shop/bank", Err("says that it fronts \"shop/bank\""));
        check(proxy("books.shop"), true, "books", Err("says that it fronts"));
        check(proxy("Books"), true, "", Err("names no service"));
        check(Some(identity(Role::Agent, "books")), true, "", Err("which is no proxy"));
        check(None, true, "shop/books", Err("must show a client certificate"));
        check(None, false, "shop/books", Ok("shop/books books.shop"));
        check(None, false, "", Err("set node.cluster"));
    }

    /// proves: MSH-02
    #[test]
    fn a_common_name_counts_only_without_a_spiffe_id() {
        let named = |spiffe: bool, role| {
            let full = identity(role, "books.shop");
            let spiffe = full.spiffe.clone().filter(|_| spiffe);
            Some(Identity { spiffe, common_name: Some("bank.shop.\u{e4}".to_owned()), ..full })
        };
        check(named(false, Role::Proxy), true, "", Ok("shop/bank bank.shop"));
        check(named(true, Role::Proxy), true, "", Ok("shop/books books.shop"));
        check(named(true, Role::User), true, "", Err("which is no proxy"));
    }

    #[test]
    fn another_trust_domain_is_refused() {
        let peer =
            Peer { identity: Some(identity(Role::Proxy, "books")), encrypted: true, address: None };
        let other: TrustDomain = "elsewhere.org".parse().unwrap();
        let refusal = admit(&peer, "", Some(&other)).expect_err("not ours");
        assert_eq!(refusal, Refusal::OtherTrustDomain("example.org".to_owned()));
    }
}
