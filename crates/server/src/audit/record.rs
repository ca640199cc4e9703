//! One line of the audit log.
use crate::gate::{Asked, Caller};
use orrery_pki::Subject;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// Empty fields are left out.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// When it was answered, RFC 3339.
    time: String,
    user: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    groups: Vec<String>,
    /// As whom they asked, where that is somebody else.
    #[serde(skip_serializing_if = "Option::is_none")]
    impersonated_user: Option<Impersonated>,
    #[serde(skip_serializing_if = "String::is_empty")]
    address: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    user_agent: String,
    transport: &'static str,
    verb: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    project: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    name: String,
    #[serde(skip_serializing_if = "str::is_empty")]
    subresource: &'static str,
    #[serde(skip_serializing_if = "String::is_empty")]
    path: String,
    allowed: bool,
    /// The code of HTTP, whichever way the request came.
    code: u16,
    latency_seconds: f64,
    /// Why a proof was not taken; never the proof.
    #[serde(skip_serializing_if = "String::is_empty")]
    reason: String,
    /// Refusals of this address before this one that have no line.
    #[serde(skip_serializing_if = "is_zero")]
    missed: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct Impersonated {
    name: String,
    groups: Vec<String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    uid: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extra: BTreeMap<String, Vec<String>>,
}

impl Impersonated {
    fn of(caller: &Caller) -> Option<Self> {
        let (Subject { name, groups, .. }, whom) = caller.impersonated()?;
        Some(Self { name, groups, uid: whom.uid.clone(), extra: whom.extra.clone() })
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Record {
    pub fn new(caller: &Caller, asked: &Asked, code: u16, took: Duration, time: String) -> Self {
        let (user, groups) = caller.subject();
        let asked = asked.clone();
        Self {
            time,
            user,
            groups,
            impersonated_user: Impersonated::of(caller),
            address: caller.peer.address.map(|address| address.to_string()).unwrap_or_default(),
            user_agent: caller.peer.user_agent.clone(),
            transport: caller.transport.as_str(),
            verb: asked.verb,
            group: asked.group,
            kind: asked.kind,
            project: asked.project,
            name: asked.name,
            subresource: asked.subresource,
            path: asked.path,
            allowed: !matches!(code, 401 | 403 | 429),
            code,
            latency_seconds: took.as_secs_f64(),
            ..Self::default()
        }
    }

    /// Says why a proof was not taken, and how many lines are missing before this one.
    #[must_use]
    pub fn because(mut self, reason: &str, missed: u64) -> Self {
        (self.reason, self.missed) = (reason.to_owned(), missed);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_who_asked_for_what_and_whether_they_got_it() {
        let caller = Caller::default();
        let asked =
            Asked { verb: "get", kind: "Secret".into(), name: "db".into(), ..<_>::default() };
        let time = || "2026-01-02T03:04:05Z".to_owned();
        let line = |code| {
            let record = Record::new(&caller, &asked, code, Duration::from_millis(2), time());
            serde_json::to_string(&record).expect("plain data")
        };
        assert_eq!(
            line(200),
            r#"{"time":"2026-01-02T03:04:05Z","user":"system:anonymous","groups":["system:unauthenticated"],"transport":"rest","verb":"get","kind":"Secret","name":"db","allowed":true,"code":200,"latencySeconds":0.002}"#
        );
        for (code, allowed) in [(404, true), (401, false), (403, false), (429, false)] {
            assert!(line(code).contains(&format!("\"allowed\":{allowed}")), "{code}");
        }
    }
}
