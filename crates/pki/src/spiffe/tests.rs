use proptest::prelude::*;

use super::*;

#[track_caller]
fn ours(text: &str, trust_domain: &str, role: Role, name: &str) {
    let id: SpiffeId = text.parse().expect("well-formed");
    assert_eq!(id.trust_domain().as_str(), trust_domain);
    assert_eq!(id.peer(), Some((role, name)));
    assert_eq!(SpiffeId::new(id.trust_domain(), role, name), Ok(id));
}

#[track_caller]
fn stranger(text: &str) {
    let id: SpiffeId = text.parse().expect("well-formed");
    assert_eq!(id.peer(), None);
    assert_eq!(id.to_string(), text);
}

#[track_caller]
fn refused(text: &str, expect: SpiffeError) {
    assert_eq!(text.parse::<SpiffeId>(), Err(expect));
}

fn segment(text: &str) -> SpiffeError {
    SpiffeError::Segment(text.to_owned())
}

fn domain(text: &str) -> SpiffeError {
    SpiffeError::TrustDomain(text.to_owned())
}

fn scheme(text: &str) -> SpiffeError {
    SpiffeError::Scheme(text.to_owned())
}

#[test]
fn our_peers() {
    ours("spiffe://orrery.local/agent/edge-1", "orrery.local", Role::Agent, "edge-1");
    ours("spiffe://a/server/s", "a", Role::Server, "s");
    ours("spiffe://a_b-c.9/user/Ann.Lee_2", "a_b-c.9", Role::User, "Ann.Lee_2");
    ours("spiffe://x/host/...", "x", Role::Host, "...");
}

#[test]
fn strangers_are_well_formed_but_play_no_role() {
    stranger("spiffe://orrery.local");
    stranger("spiffe://orrery.local/agent");
    stranger("spiffe://orrery.local/agent/a/b");
    stranger("spiffe://cluster.local/ns/default/sa/web");
    stranger("spiffe://orrery.local/Agent/a");
    stranger("spiffe://orrery.local/root/a");
}

#[test]
fn malformed_ids() {
    refused("", scheme(""));
    refused("https://orrery.local/agent/a", scheme("https://orrery.local/agent/a"));
    refused("SPIFFE://orrery.local/agent/a", scheme("SPIFFE://orrery.local/agent/a"));
    refused("spiffe:/orrery.local/agent/a", scheme("spiffe:/orrery.local/agent/a"));
    refused("spiffe://", domain(""));
    refused("spiffe:///agent/a", domain(""));
    refused("spiffe://Orrery/agent/a", domain("Orrery"));
    refused("spiffe://orrery:7443/agent/a", domain("orrery:7443"));
    refused("spiffe://user@orrery/agent/a", domain("user@orrery"));
    refused("spiffe://örrery/agent/a", domain("örrery"));
    refused(&format!("spiffe://{}/agent/a", "d".repeat(256)), domain(&"d".repeat(256)));
    refused("spiffe://orrery/", segment(""));
    refused("spiffe://orrery/agent/", segment(""));
    refused("spiffe://orrery//agent/a", segment(""));
    refused("spiffe://orrery/agent/.", segment("."));
    refused("spiffe://orrery/agent/../server/s", segment(".."));
    refused("spiffe://orrery/agent/a%2fb", segment("a%2fb"));
    refused("spiffe://orrery/agent/a?x=1", segment("a?x=1"));
    refused("spiffe://orrery/agent/a#x", segment("a#x"));
    refused("spiffe://orrery/agent/a b", segment("a b"));
    refused("spiffe://orrery/agent/a\0", segment("a\0"));
    refused(&format!("spiffe://o/agent/{}", "a".repeat(2048)), SpiffeError::TooLong);
}

#[test]
fn a_name_cannot_smuggle_a_path() {
    let domain: TrustDomain = "o".parse().expect("valid");
    for name in ["", ".", "..", "a/b", "../server/s", "a b", "é"] {
        assert_eq!(SpiffeId::new(&domain, Role::Agent, name), Err(segment(name)));
    }
    let long = "a".repeat(2048);
    assert_eq!(SpiffeId::new(&domain, Role::Agent, &long), Err(SpiffeError::TooLong));
}

proptest! {
    /// One spelling per id: whatever is accepted prints exactly as it was read.
    #[test]
    fn accepted_text_prints_as_it_was_read(text in "(spiffe://)?[a-z./_%A-Z:@ -]{0,40}") {
        if let Ok(id) = text.parse::<SpiffeId>() {
            prop_assert_eq!(id.to_string(), text);
        }
    }

    #[test]
    fn any_text_is_answered(text in any::<String>()) {
        let prefixed = format!("spiffe://{text}");
        for text in [text, prefixed] {
            if let Ok(id) = text.parse::<SpiffeId>() {
                prop_assert_eq!(id.to_string(), text);
            }
        }
    }

    #[test]
    fn made_ids_read_back(
        domain in "[a-z0-9._-]{1,30}",
        role in proptest::sample::select(&Role::ALL[..]),
        name in "[a-zA-Z0-9_-][a-zA-Z0-9._-]{0,30}",
    ) {
        let id = SpiffeId::new(&domain.parse().expect("valid"), role, &name).expect("valid");
        let read: SpiffeId = id.to_string().parse().expect("what we print we read");
        prop_assert_eq!(read.peer(), Some((role, name.as_str())));
    }
}
