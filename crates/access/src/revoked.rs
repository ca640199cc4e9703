//! Identities that are disabled.
use orrery_hub::ObjectName;
use orrery_pki::{Fingerprint, Identity, Role, Subject};
use orrery_proto::core::v1::Revocation;
use std::collections::HashMap;

/// The project of a proxy that names none.
const PROJECT_DEFAULT: &str = "default";

/// Whom a revocation disables.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Whom {
    Peer { role: String, name: String },
    Certificate(String),
}

impl Whom {
    fn of(revocation: &Revocation) -> Self {
        let spec = revocation.spec.clone().unwrap_or_default();
        match spec.certificate() {
            "" => Self::Peer { role: spec.role().to_owned(), name: spec.peer().to_owned() },
            certificate => Self::Certificate(certificate.to_owned()),
        }
    }
}

/// Every revocation of a moment. A change costs the same however many there are.
#[derive(Clone, Debug, Default)]
pub struct Revoked {
    named: HashMap<ObjectName, Whom>,
    /// How many revocations name somebody: when one goes, another may still be there.
    counts: HashMap<Whom, usize>,
}

impl Revoked {
    pub fn new<'a>(revocations: impl IntoIterator<Item = &'a Revocation>) -> Self {
        let mut revoked = Self::default();
        for (number, revocation) in revocations.into_iter().enumerate() {
            revoked.set(&ObjectName::new("", number.to_string()), Some(revocation));
        }
        revoked
    }

    /// Takes in what a revocation says now, or that it is gone.
    pub fn set(&mut self, name: &ObjectName, revocation: Option<&Revocation>) {
        let whom = revocation.map(Whom::of);
        if let Some(whom) = &whom {
            *self.counts.entry(whom.clone()).or_default() += 1;
        }
        let before = match whom {
            Some(whom) => self.named.insert(name.clone(), whom),
            None => self.named.remove(name),
        };
        if let Some(before) = before
            && let Some(count) = self.counts.get_mut(&before)
        {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&before);
            }
        }
    }

    /// Whether whoever shows this certificate is refused.
    pub fn refuses(&self, identity: &Identity) -> bool {
        let peer = match (identity.role(), identity.name()) {
            (Some(role), Some(name)) => self.refuses_peer(role, name),
            (_, _) => proxy_names(identity).any(|name| self.refuses_peer(Role::Proxy, &name)),
        };
        peer || self.refuses_certificate(&identity.fingerprint)
    }

    /// Whether somebody is refused as they were proven: by name however that was, or by their certificate.
    pub fn refuses_subject(&self, subject: &Subject) -> bool {
        subject.role.is_some_and(|role| self.refuses_peer(role, &subject.name))
            || subject.certificate.is_some_and(|shown| self.refuses_certificate(&shown))
    }

    pub fn refuses_peer(&self, role: Role, name: &str) -> bool {
        let whom = Whom::Peer { role: role.as_str().to_owned(), name: name.to_owned() };
        self.counts.contains_key(&whom)
    }

    fn refuses_certificate(&self, fingerprint: &Fingerprint) -> bool {
        self.counts.contains_key(&Whom::Certificate(fingerprint.to_string()))
    }
}

/// What a certificate without a SPIFFE id may be disabled as. The mesh takes its common name for that of a proxy, and
/// reads a service and its project from it, whatever follows.
fn proxy_names(identity: &Identity) -> impl Iterator<Item = String> {
    let name = identity.common_name.as_deref().filter(|_| identity.spiffe.is_none());
    name.into_iter().flat_map(|whole| {
        let mut labels = whole.split('.');
        let service = labels.next().unwrap_or_default();
        let project = labels.next().unwrap_or(PROJECT_DEFAULT);
        [whole.to_owned(), format!("{service}.{project}")]
    })
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

    #[test]
    fn a_proxy_is_refused_by_its_common_name_where_it_has_no_other() {
        let start = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1 << 30);
        let validity = orrery_pki::Validity::starting(start, std::time::Duration::from_secs(60));
        let domain = "example.org".parse().unwrap();
        let authority = orrery_pki::Authority::generate(&domain, validity).unwrap();
        let request = orrery_pki::IssueRequest::new(Role::Agent, "edge-1");
        let issued = authority.issue(&request, validity).unwrap();
        let named = |name: &str| Identity {
            spiffe: None,
            common_name: Some(name.to_owned()),
            ..issued.identity().clone()
        };
        for (peer, name, expect) in [
            ("web.shop", "web.shop", true),
            ("web.shop", "web.shop.i-1", true),
            ("web.shop.i-1", "web.shop.i-1", true),
            ("web.shop.i-1", "web.shop", false),
            ("web.default", "web", true),
            ("web", "web", true),
            ("web.shop", "bank.shop", false),
            ("web.shop", "web", false),
        ] {
            let revoked = Revoked::new([&mk("proxy", peer, "")]);
            assert_eq!(revoked.refuses(&named(name)), expect, "{name} where {peer} is disabled");
        }
        let revoked = Revoked::new([&mk("proxy", "web.shop", ""), &mk("agent", "bank.shop", "")]);
        assert!(!revoked.refuses(&named("bank.shop")), "the name of another role");
        let spiffe = issued.identity().spiffe.clone();
        assert!(!revoked.refuses(&Identity { spiffe, ..named("web.shop") }), "that counts first");
    }

    /// Each change is taken in by itself, and ends as if all had been read anew.
    #[test]
    fn changes_are_taken_in_one_by_one() {
        let name = |name: &str| ObjectName::new("", name);
        let refused = |revoked: &Revoked, peer: &str| revoked.refuses_peer(Role::Agent, peer);
        let mut revoked = Revoked::default();
        revoked.set(&name("first"), Some(&mk("agent", "a", "")));
        revoked.set(&name("second"), Some(&mk("agent", "a", "")));
        revoked.set(&name("first"), None);
        assert!(refused(&revoked, "a"), "another one names it still");
        revoked.set(&name("second"), Some(&mk("agent", "b", "")));
        assert!(!refused(&revoked, "a") && refused(&revoked, "b"));
        revoked.set(&name("second"), Some(&mk("agent", "b", "")));
        revoked.set(&name("second"), None);
        revoked.set(&name("second"), None);
        assert!(!refused(&revoked, "b"));
        assert!(revoked.named.is_empty() && revoked.counts.is_empty(), "nothing is kept");
    }

    /// A start with many of them, and an end of each.
    #[test]
    fn very_many_cost_no_more_each() {
        const MANY: usize = 200_000;
        let name = |number: usize| ObjectName::new("", number.to_string());
        let mut revoked = Revoked::default();
        for number in 0..MANY {
            revoked.set(&name(number), Some(&mk("agent", &number.to_string(), "")));
            assert!(revoked.refuses_peer(Role::Agent, &number.to_string()));
        }
        for number in 0..MANY {
            revoked.set(&name(number), None);
        }
        assert!(!revoked.refuses_peer(Role::Agent, "1"));
    }
}
