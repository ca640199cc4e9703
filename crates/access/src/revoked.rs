//! Identities that are disabled.
use orrery_pki::{Identity, Role, Subject};
use orrery_proto::core::v1::Revocation;

/// Every revocation of a moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Revoked {
    peers: Vec<(String, String)>,
    certificates: Vec<String>,
}

impl Revoked {
    pub fn new<'a>(revocations: impl IntoIterator<Item = &'a Revocation>) -> Self {
        let mut revoked = Self::default();
        for revocation in revocations {
            let spec = revocation.spec.clone().unwrap_or_default();
            match spec.certificate() {
                "" => revoked.peers.push((spec.role().to_owned(), spec.peer().to_owned())),
                certificate => revoked.certificates.push(certificate.to_owned()),
            }
        }
        revoked
    }

    /// Whether whoever shows this certificate is refused.
    pub fn refuses(&self, identity: &Identity) -> bool {
        let peer = match (identity.role(), identity.name()) {
            (Some(role), Some(name)) => self.refuses_peer(role, name),
            (_, _) => false,
        };
        peer || self.certificates.contains(&identity.fingerprint.to_string())
    }

    /// Whether somebody is refused however they were proven.
    pub fn refuses_subject(&self, subject: &Subject) -> bool {
        subject.role.is_some_and(|role| self.refuses_peer(role, &subject.name))
    }

    pub fn refuses_peer(&self, role: Role, name: &str) -> bool {
        self.peers.iter().any(|(of, peer)| of == role.as_str() && peer == name)
    }
}

/// What a revocation must be like: it names a peer, or a certificate, and not half of either.
pub fn problem(revocation: &Revocation) -> Option<&'static str> {
    let spec = revocation.spec.clone().unwrap_or_default();
    match (spec.role(), spec.peer(), spec.certificate()) {
        ("", "", "") => Some("name a role and a peer, or a certificate"),
        ("", "", _) => None,
        (_, _, "") if spec.role().is_empty() || spec.peer().is_empty() => {
            Some("a peer is named by its role and its name")
        }
        (_, _, "") => None,
        (_, _, _) => Some("name either a peer or a certificate, not both"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_proto::core::v1::RevocationSpec;

    fn mk(role: &str, peer: &str, certificate: &str) -> Revocation {
        let text = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let spec = RevocationSpec {
            role: text(role),
            peer: text(peer),
            certificate: text(certificate),
            reason: None,
        };
        Revocation { spec: Some(spec), ..Revocation::default() }
    }

    #[test]
    fn a_revocation_names_a_peer_or_a_certificate() {
        for (role, peer, certificate, good) in [
            ("agent", "a", "", true),
            ("", "", "ab", true),
            ("", "", "", false),
            ("agent", "", "", false),
            ("", "a", "", false),
            ("agent", "a", "ab", false),
        ] {
            let found = problem(&mk(role, peer, certificate));
            assert_eq!(found.is_none(), good, "{role} {peer} {certificate}: {found:?}");
        }
    }

    #[test]
    fn a_person_is_refused_however_they_are_known() {
        let revoked = Revoked::new([&mk("user", "ann", "")]);
        let ann = Subject::person("ann".into(), vec![], orrery_pki::KnownBy::Token);
        let bob = Subject { name: "bob".into(), ..ann.clone() };
        let agent = Subject { role: Some(Role::Agent), ..ann.clone() };
        assert!(revoked.refuses_subject(&ann));
        assert!(!revoked.refuses_subject(&bob) && !revoked.refuses_subject(&agent));
    }
}
