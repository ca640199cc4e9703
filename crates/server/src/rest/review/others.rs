//! Questions about others, as a service asks them that leaves it to this server who its own clients are and what they
//! may do.
use super::AUTHORIZATION;
use crate::identity::Guard;
use crate::rest::access::{self, Attributes};
use crate::rest::failure::{Cause, Failure};
use orrery_pki::Subject;
use serde_json::{Value, json};

/// The same for every reason, as for everybody who shows a token here.
const NOT_GOOD: &str = "the token is not good here";

/// Who shows a token, and for which of the audiences that the asker stands for it is made.
pub async fn token(guard: &Guard, spec: &Value) -> Result<Value, Failure> {
    let (token, wanted) = shown(spec)?;
    let refused = |error: String| json!({ "authenticated": false, "error": error });
    let login = match guard.login(&token).await {
        Ok(login) => login,
        Err(reason) => {
            tracing::info!(who = guard.subject().name, reason, "a token that is asked about");
            return Ok(refused(NOT_GOOD.to_owned()));
        }
    };
    let made_for = login.audience;
    if !wanted.is_empty() && !wanted.contains(&made_for) {
        let error = format!("the token is made for the audience {made_for:?} and for no other");
        return Ok(refused(error));
    }
    let Subject { name, groups, .. } = login.subject;
    Ok(json!({
        "authenticated": true,
        "user": { "username": name, "groups": groups },
        "audiences": [made_for],
    }))
}

/// A token, and the audiences one of which it should be made for.
fn shown(spec: &Value) -> Result<(String, Vec<String>), Failure> {
    let token = text(spec, "token")?;
    if token.is_empty() {
        return Err(Failure::bad_request("spec.token: Required value: whose token is it?"));
    }
    Ok((token, texts(spec, "audiences")?))
}

/// What somebody may do, in a project if one is given: the same that they could do here themselves.
pub fn access(
    guard: &Guard,
    kind: &str,
    project: Option<&str>,
    spec: &Value,
) -> Result<Value, Failure> {
    let (subject, asked) = wanted(kind, project, spec)?;
    let guard = guard.of(subject);
    if guard.is_disabled() {
        // Nothing else gives it to them.
        let reason = "the identity is revoked";
        return Ok(json!({ "allowed": false, "denied": true, "reason": reason }));
    }
    let (allowed, reason) = access::allowed(&guard, &asked);
    Ok(json!({ "allowed": allowed, "reason": reason }))
}

/// Who wants to do what. A uid and extras say nothing that is decided by.
fn wanted(
    kind: &str,
    project: Option<&str>,
    spec: &Value,
) -> Result<(Subject, Attributes), Failure> {
    let (user, groups) = (text(spec, "user")?, texts(spec, "groups")?);
    let invalid = |reason: &'static str, field: &str, message: String| {
        let group = AUTHORIZATION.split('/').next().unwrap_or_default();
        Err(Failure::invalid(group, kind, "", &[Cause::new(reason, field, message)]))
    };
    if user.is_empty() && groups.is_empty() {
        let message = "Invalid value: at least one of user and groups must be there";
        return invalid("FieldValueInvalid", "spec.user", message.to_owned());
    }
    let asked = Attributes::of(kind, spec)?;
    match (&asked, project) {
        (Attributes::Path { .. }, Some(_)) => {
            let message = "Forbidden: paths are in no project";
            return invalid(
                "FieldValueForbidden",
                "spec.nonResourceAttributes",
                message.to_owned(),
            );
        }
        (Attributes::Resource(wanted), Some(project)) if wanted.project != project => {
            let message = format!("Invalid value: {:?}: must be {project:?}", wanted.project);
            return invalid("FieldValueInvalid", "spec.resourceAttributes.namespace", message);
        }
        (Attributes::Resource(_) | Attributes::Path { .. }, _) => {}
    }
    Ok((Subject::impersonated(user, groups), asked))
}

fn text(spec: &Value, key: &str) -> Result<String, Failure> {
    match spec.get(key) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(Failure::bad_request(format!("spec.{key} must be a text"))),
    }
}

fn texts(spec: &Value, key: &str) -> Result<Vec<String>, Failure> {
    let refused = || Failure::bad_request(format!("spec.{key} must be a list of texts"));
    match spec.get(key) {
        None | Some(Value::Null) => Ok(Vec::new()),
        Some(Value::Array(items)) => {
            items.iter().map(|item| item.as_str().map(str::to_owned).ok_or_else(refused)).collect()
        }
        Some(_) => Err(refused()),
    }
}

/// Whether what is asked about others can be read at all.
#[cfg(feature = "fuzzing")]
pub fn check_spec(spec: &Value) -> [Result<(), Failure>; 3] {
    let kind = "SubjectAccessReview";
    let access = |project| wanted(kind, project, spec).map(drop);
    [shown(spec).map(drop), access(None), access(Some("p"))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(project: Option<&str>, spec: Value, expect: Result<(), (u16, &str)>) {
        let found = wanted("SubjectAccessReview", project, &spec).map(drop);
        let found = found.map_err(|failure| (failure.code.as_u16(), failure.message));
        match (found, expect) {
            (Ok(()), Ok(())) => {}
            (Err((code, message)), Err((expected, part))) if code == expected => {
                assert!(message.contains(part), "{message}");
            }
            (found, expect) => panic!("{spec}: {found:?}, expected {expect:?}"),
        }
    }

    #[test]
    fn who_wants_what_is_read() {
        let what = json!({ "verb": "get", "resource": "workloads", "namespace": "demo" });
        let path = json!({ "verb": "get", "path": "/metrics" });
        let ann = |what: &Value| json!({ "user": "ann", "resourceAttributes": what });
        check(None, ann(&what), Ok(()));
        check(None, json!({ "groups": ["ops"], "nonResourceAttributes": path }), Ok(()));
        check(Some("demo"), ann(&what), Ok(()));
        check(Some("other"), ann(&what), Err((422, "must be \"other\"")));
        let of_path = json!({ "user": "ann", "nonResourceAttributes": path });
        check(Some("demo"), of_path, Err((422, "in no project")));
        check(None, json!({ "resourceAttributes": what }), Err((422, "one of user and groups")));
        check(None, json!({ "user": "ann" }), Err((422, "exactly one of")));
        check(None, json!({ "user": 1 }), Err((400, "spec.user must be a text")));
        let groups = json!({ "user": "ann", "groups": "ops" });
        check(None, groups, Err((400, "spec.groups must be a list")));
        let groups = json!({ "user": "ann", "groups": [1] });
        check(None, groups, Err((400, "spec.groups must be a list")));
    }

    #[test]
    fn a_token_is_needed() {
        for spec in [json!({}), json!({ "token": "" }), json!({ "token": 1 }), Value::Null] {
            assert_eq!(shown(&spec).expect_err("no token").code.as_u16(), 400, "{spec}");
        }
        let spec = json!({ "token": "t", "audiences": ["a", "b"] });
        let expect = ("t".to_owned(), vec!["a".to_owned(), "b".to_owned()]);
        assert_eq!(shown(&spec).expect("it is there"), expect);
    }
}
