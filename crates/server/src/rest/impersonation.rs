//! Asking as somebody else: those who may say in headers as whom, as `kubectl --as` does.
//!
//! ```text
//!   Impersonate-User: bob          needs `impersonate` on users "bob" of core
//!   Impersonate-Group: ops         on groups "ops" of core; as often as there are groups
//!   Impersonate-Uid: 42            on uids "42" of authentication.k8s.io
//!   Impersonate-Extra-Team: red    on userextras/team "red" of authentication.k8s.io
//! ```
//! The whole request is then that one's: what they may not do is refused, whoever sends it.
use super::failure::Failure;
use crate::identity::{Borrowed, Guard};
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use orrery_access::Attributes;
use orrery_fleet::middleware::{Impersonation, Peer};
use orrery_pki::{KnownBy, Subject};
use percent_encoding::percent_decode_str;
use std::collections::BTreeMap;

/// How all the headers begin.
const HEADERS: &str = "impersonate-";
const EXTRA: &str = "extra-";
const CORE: &str = "core";
const AUTHENTICATION: &str = "authentication.k8s.io";

/// As whom somebody wants to ask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Whom {
    user: String,
    groups: Vec<String>,
    uid: String,
    extra: BTreeMap<String, Vec<String>>,
}

/// Whether somebody wants to ask as somebody else.
pub fn is_wanted(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| name.as_str().starts_with(HEADERS))
}

/// Makes the request that of the one whom its headers name, if they name one.
pub fn apply(guard: &Guard, request: &mut Request) -> Result<(), Failure> {
    if !is_wanted(request.headers()) {
        return Ok(());
    }
    let peer = request.extensions().get::<Peer>().cloned().unwrap_or_default();
    let asker = peer.subject();
    if asker.known_by == KnownBy::Nothing {
        // Told so, as everybody who has not proven who they are.
        return Ok(());
    }
    let whom = Whom::read(request.headers())?;
    let allowed = whom.check(&guard.of(asker.clone()));
    let borrowed = Borrowed::new(asker.clone(), whom.needed());
    // Also where it is refused: the audit log says as whom they wanted to ask.
    let Whom { user, groups, uid, extra } = whom;
    let subject = Subject::impersonated(user, groups);
    let peer = peer.asking_as(subject, Impersonation { asker, uid, extra });
    request.extensions_mut().insert(peer);
    request.extensions_mut().insert(borrowed);
    allowed
}

impl Whom {
    /// What is not understood is refused: nobody may believe that they ask as another, and do not.
    fn read(headers: &HeaderMap) -> Result<Self, Failure> {
        let mut whom = Self::default();
        for (name, value) in headers {
            let Some(what) = name.as_str().strip_prefix(HEADERS) else { continue };
            let value = text(name.as_str(), value)?;
            match what {
                "user" => once(&mut whom.user, name.as_str(), value)?,
                "uid" => once(&mut whom.uid, name.as_str(), value)?,
                "group" => whom.groups.push(value),
                other => {
                    let key = other.strip_prefix(EXTRA).and_then(decoded).ok_or_else(|| {
                        Failure::bad_request(format!("the header {name} is not known"))
                    })?;
                    whom.extra.entry(key).or_default().push(value);
                }
            }
        }
        match whom.user.as_str() {
            "" => Err(Failure::bad_request(
                "requested groups, a uid or extras without impersonating a user: the header Impersonate-User is missing",
            )),
            _ => Ok(whom),
        }
    }

    /// Everything that the one who asks must be allowed, each by itself.
    fn needed(&self) -> impl Iterator<Item = Attributes> + '_ {
        let ask = |group: &str, resource: &str, name: &str| {
            Attributes::new("impersonate", group, resource).named("", name)
        };
        let user = std::iter::once(ask(CORE, "users", &self.user));
        let groups = self.groups.iter().map(move |group| ask(CORE, "groups", group));
        let uid = Some(&self.uid).filter(|uid| !uid.is_empty());
        let uid = uid.map(|uid| ask(AUTHENTICATION, "uids", uid));
        let extra = self.extra.iter().flat_map(move |(key, values)| {
            values.iter().map(move |value| ask(AUTHENTICATION, "userextras", value).part(key))
        });
        user.chain(groups).chain(uid).chain(extra)
    }

    fn check(&self, guard: &Guard) -> Result<(), Failure> {
        let Some(asked) = self.needed().find(|asked| !guard.decide(asked).allowed()) else {
            return Ok(());
        };
        let who = &guard.subject().name;
        let Attributes { group, resource, subresource, name, .. } = &asked;
        tracing::warn!(who, resource, subresource, name, "refused to impersonate");
        let part = if subresource.is_empty() { String::new() } else { format!("/{subresource}") };
        let message = format!(
            "{resource} {name:?} is forbidden: user {who:?} cannot impersonate resource \"{resource}{part}\" in API group {group:?}"
        );
        let failure = Failure::new(StatusCode::FORBIDDEN, "Forbidden", message);
        Err(failure.about(if group == CORE { "" } else { group }, resource, name))
    }
}

fn text(name: &str, value: &HeaderValue) -> Result<String, Failure> {
    let value = std::str::from_utf8(value.as_bytes()).unwrap_or_default().trim();
    if value.is_empty() {
        return Err(Failure::bad_request(format!("the header {name} says nothing")));
    }
    Ok(value.to_owned())
}

fn once(place: &mut String, name: &str, value: String) -> Result<(), Failure> {
    if !place.is_empty() {
        return Err(Failure::bad_request(format!("the header {name} is there more than once")));
    }
    *place = value;
    Ok(())
}

/// The key of an extra, in which letters may be written that headers cannot hold.
fn decoded(key: &str) -> Option<String> {
    let key = percent_decode_str(key).decode_utf8().ok()?;
    (!key.is_empty()).then(|| key.into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(headers: &[(&'static str, &'static str)]) -> Result<Whom, Failure> {
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        Whom::read(&map)
    }

    #[track_caller]
    fn refused(headers: &[(&'static str, &'static str)]) {
        assert_eq!(read(headers).expect_err("it makes no sense").code, StatusCode::BAD_REQUEST);
    }

    #[test]
    fn headers_say_as_whom() {
        let whom = read(&[
            ("impersonate-user", "bob"),
            ("impersonate-group", "ops"),
            ("impersonate-group", "dev"),
            ("impersonate-uid", "42"),
            ("impersonate-extra-example.com%2Fteam", "red"),
            ("impersonate-extra-example.com%2Fteam", "blue"),
        ]);
        let whom = whom.expect("all of it is known");
        assert_eq!((whom.user.as_str(), whom.uid.as_str()), ("bob", "42"));
        assert_eq!(whom.groups, ["ops", "dev"]);
        assert_eq!(whom.extra["example.com/team"], ["red", "blue"]);
        let needed: Vec<String> =
            whom.needed().map(|a| format!("{}/{} {}", a.resource, a.subresource, a.name)).collect();
        let expect = [
            "users/ bob",
            "groups/ ops",
            "groups/ dev",
            "uids/ 42",
            "userextras/example.com/team red",
            "userextras/example.com/team blue",
        ];
        assert_eq!(needed, expect);
    }

    #[test]
    fn what_is_not_understood_is_refused_and_not_ignored() {
        refused(&[("impersonate-group", "ops")]);
        refused(&[("impersonate-uid", "42")]);
        refused(&[("impersonate-extra-team", "red")]);
        refused(&[("impersonate-user", "")]);
        refused(&[("impersonate-user", "bob"), ("impersonate-user", "ann")]);
        refused(&[("impersonate-user", "bob"), ("impersonate-groups", "ops")]);
        refused(&[("impersonate-user", "bob"), ("impersonate-extra-", "red")]);
    }
}
