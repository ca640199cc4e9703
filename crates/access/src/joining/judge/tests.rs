use super::*;
use orrery_proto::core::v1::{JoinTokenSpec, JoinTokenStatus};
use proptest::prelude::*;

const NOW: i64 = 1000;

fn at(seconds: i64) -> Timestamp {
    Timestamp { seconds, nanos: 0 }
}

fn mk_token(pattern: &str) -> JoinToken {
    let spec = JoinTokenSpec {
        role: Some("agent".into()),
        peer: Some(pattern.into()),
        secret_hash: Some(SecretHash::of(b"secret").to_string()),
        ..JoinTokenSpec::default()
    };
    JoinToken { spec: Some(spec), ..JoinToken::default() }
}

fn ask(token: &JoinToken, secret: &[u8], role: Role, name: &str) -> Result<(), String> {
    let asking = Asking { secret: SecretHash::of(secret), role, name };
    judge(token, &asking, at(NOW)).map_err(|refusal| refusal.told())
}

#[track_caller]
fn refused(token: &JoinToken, role: Role, name: &str, expect: &str) {
    let told = ask(token, b"secret", role, name).expect_err("refused");
    assert!(told.contains(expect), "{told}");
}

#[test]
fn a_token_is_good_for_its_role_and_names() {
    let token = mk_token("edge-*");
    assert_eq!(ask(&token, b"secret", Role::Agent, "edge-1"), Ok(()));
    refused(&token, Role::Driver, "edge-1", "is for agent \"edge-*\", not for driver \"edge-1\"");
    refused(&token, Role::Server, "edge-1", "not for server");
    refused(&token, Role::Agent, "core-1", "not for agent \"core-1\"");
    refused(&mk_token("*"), Role::Agent, "../server/x", "is no name");
    refused(&mk_token("*"), Role::Agent, "", "is no name");
    refused(&mk_token("*"), Role::Agent, "Edge", "is no name");
}

#[test]
fn without_the_secret_nothing_is_learned() {
    let mut token = mk_token("edge-*");
    token.spec.as_mut().expect("a spec").expires_at = Some(at(1));
    for (role, name) in [(Role::Agent, "edge-1"), (Role::Server, "other")] {
        let told = ask(&token, b"guess", role, name).expect_err("refused");
        assert_eq!(told, "the join token is not good here");
    }
}

#[test]
fn a_token_ends() {
    let mut token = mk_token("edge-1");
    for (end, good) in [(NOW - 1, false), (NOW, false), (NOW + 1, true)] {
        token.spec.as_mut().expect("a spec").expires_at = Some(at(end));
        assert_eq!(ask(&token, b"secret", Role::Agent, "edge-1").is_ok(), good, "{end}");
    }
    refused(&mk_expired(), Role::Agent, "edge-1", "has expired");
}

fn mk_expired() -> JoinToken {
    let mut token = mk_token("edge-1");
    token.spec.as_mut().expect("a spec").expires_at = Some(at(NOW - 1));
    token
}

#[test]
fn a_token_is_used_up() {
    let mut token = mk_token("edge-*");
    token.spec.as_mut().expect("a spec").uses = Some(2);
    for (used, good) in [(0, true), (1, true), (2, false), (3, false)] {
        token.status = Some(JoinTokenStatus { used, ..JoinTokenStatus::default() });
        assert_eq!(ask(&token, b"secret", Role::Agent, "edge-1").is_ok(), good, "{used}");
    }
    refused(&token, Role::Agent, "edge-1", "as often as it may");
}

#[track_caller]
fn fits(pattern: &str, name: &str, expect: bool) {
    assert_eq!(pattern_fits(pattern, name), expect, "{pattern} {name}");
}

#[test]
fn patterns() {
    fits("edge-1", "edge-1", true);
    fits("edge-1", "edge-10", false);
    fits("edge-1", "xedge-1", false);
    fits("edge-*", "edge-", true);
    fits("edge-*", "edge-1", true);
    fits("edge-*", "ed", false);
    fits("*", "anything", true);
    fits("*-1", "edge-1", true);
    fits("*-1", "edge-12", false);
    fits("a*b*c", "a-b-c", true);
    fits("a*b*c", "abc", true);
    fits("a*b*c", "acb", false);
    fits("ab*ba", "aba", false);
    fits("", "", true);
    fits("", "a", false);
}

proptest! {
    /// The same as trying every way to fill the stars.
    #[test]
    fn patterns_as_their_meaning(pattern in "[ab*]{0,6}", name in "[ab]{0,6}") {
        fn slow(pattern: &[u8], name: &[u8]) -> bool {
            match pattern.split_first() {
                None => name.is_empty(),
                Some((b'*', rest)) => (0..=name.len()).any(|skip| slow(rest, &name[skip..])),
                Some((letter, rest)) => name.split_first()
                    .is_some_and(|(first, after)| first == letter && slow(rest, after)),
            }
        }
        prop_assert_eq!(pattern_fits(&pattern, &name), slow(pattern.as_bytes(), name.as_bytes()));
    }
}
