//! Names that sessions are being opened for.
//!
//! Between the look at who has a name and the session that takes it lies a write to the store. Whoever opens a
//! session claims the name for that time, so that of two agents that come in the same moment one is refused.
use orrery_pki::Fingerprint;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// Who an agent shows to be, beside its name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Of the key of its certificate; a renewed certificate has the same.
    pub certificate: Option<Fingerprint>,
    pub agent: AgentIdentity,
}

impl Shown {
    /// Whether both are one agent, as far as they say.
    pub fn may_be(&self, other: &Self) -> bool {
        self.certificate == other.certificate && !self.agent.is_other_than(&other.agent)
    }
}

/// Tells agents of the same name apart where there are no certificates to do so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentIdentity {
    /// Of its data folder; empty when the agent is of a version that does not say.
    pub id: String,
    /// Where it runs, for people.
    pub hostname: String,
}

impl AgentIdentity {
    /// Whether both are known, and not the same. What one does not say of itself is not held against it.
    pub fn is_other_than(&self, connected: &Self) -> bool {
        !self.id.is_empty() && !connected.id.is_empty() && self.id != connected.id
    }
}

#[derive(Debug, Default)]
pub struct Claims {
    /// Who claims each name, and how often: an agent may come back before it was let in.
    by_name: Mutex<HashMap<String, (Shown, usize)>>,
}

/// A name that is claimed until this is dropped.
#[derive(Debug)]
pub struct Claim {
    claims: Arc<Claims>,
    name: String,
}

impl Claims {
    /// Claims a name, or says who does.
    pub fn claim(self: &Arc<Self>, name: &str, shown: &Shown) -> Result<Claim, Shown> {
        let mut by_name = self.by_name.lock();
        let (claimed, times) = by_name.entry(name.to_owned()).or_insert_with(|| (shown.clone(), 0));
        if !shown.may_be(claimed) {
            return Err(claimed.clone());
        }
        *times += 1;
        Ok(Claim { claims: self.clone(), name: name.to_owned() })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut by_name = self.claims.by_name.lock();
        let Some((_, times)) = by_name.get_mut(&self.name) else { return };
        *times -= 1;
        if *times == 0 {
            by_name.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(id: &str) -> Shown {
        let agent = AgentIdentity { id: id.to_owned(), hostname: format!("host of {id}") };
        Shown { certificate: None, agent }
    }

    #[test]
    fn a_name_is_claimed_by_one_agent_at_a_time() {
        let claims = Arc::new(Claims::default());
        let first = claims.claim("edge", &shown("a")).expect("free");
        let again = claims.claim("edge", &shown("a")).expect("the same agent");
        assert_eq!(claims.claim("edge", &shown("b")).expect_err("taken"), shown("a"));
        claims.claim("other", &shown("b")).expect("another name");
        drop(first);
        claims.claim("edge", &shown("b")).expect_err("still claimed once");
        drop(again);
        claims.claim("edge", &shown("b")).expect("free again");
        assert!(claims.by_name.lock().is_empty(), "nothing is left behind");
    }

    #[test]
    fn another_certificate_is_another_agent_and_silence_is_none() {
        let (old, plain) = (Shown::default(), shown("a"));
        assert!(old.may_be(&plain) && plain.may_be(&old), "an older agent does not say its id");
        let certificate = Some(Fingerprint::of(b"a key"));
        assert!(!Shown { certificate, ..plain.clone() }.may_be(&plain));
    }

    #[test]
    fn agents_are_told_apart_when_both_say_who_they_are() {
        let agent = |id: &str| AgentIdentity { id: id.into(), hostname: "host".into() };
        assert!(agent("a").is_other_than(&agent("b")));
        assert!(!agent("a").is_other_than(&agent("a")));
        assert!(!agent("").is_other_than(&agent("b")) && !agent("a").is_other_than(&agent("")));
    }
}
