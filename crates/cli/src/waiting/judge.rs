//! Whether a resource is as it should be: pure.
use crate::args::Aim;
use crate::output::jsonpath::plain;
use serde_json::Value;

/// What a resource is waited for.
pub enum Goal {
    /// Its condition Ready, or the one that sums it up instead, is true for what is asked for. `reports` says that somebody will look
    /// at it and write a status, so that silence means *not yet*.
    Ready {
        reports: bool,
    },
    /// This very object is gone.
    Gone {
        uid: Option<String>,
    },
    Aim(Aim),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is so; the word says what.
    Done(String),
    /// Not yet, and why.
    Open(String),
    /// It will never be so.
    Hopeless(String),
}

impl Verdict {
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done(_))
    }
}

impl Goal {
    /// `None` stands for a resource that is not there.
    pub fn judge(&self, object: Option<&Value>) -> Verdict {
        match (self, object) {
            (Self::Ready { reports }, Some(object)) => ready(object, *reports),
            (Self::Ready { .. }, None) => {
                Verdict::Hopeless("it was deleted while it was waited for".into())
            }
            (Self::Gone { .. }, None) => Verdict::Done("deleted".into()),
            (Self::Gone { uid }, Some(object)) => gone(object, uid.as_deref()),
            (Self::Aim(aim), object) => aimed(aim, object),
        }
    }
}

fn aimed(aim: &Aim, object: Option<&Value>) -> Verdict {
    let met = || Verdict::Done("condition met".into());
    match (aim, object) {
        (Aim::Delete, None) => Verdict::Done("deleted".into()),
        (Aim::Delete, Some(object)) => gone(object, None),
        (Aim::Create, Some(_)) => Verdict::Done("created".into()),
        (_, None) => Verdict::Open("it is not there".into()),
        (Aim::Condition { r#type, status }, Some(object)) => {
            match condition(object, r#type, status) {
                Ok(()) => met(),
                Err(why) => Verdict::Open(why),
            }
        }
        (Aim::JsonPath { path, value }, Some(object)) => {
            let found: Vec<String> = path.find(object).into_iter().map(plain).collect();
            let reached = match value {
                Some(value) => found.iter().any(|one| one == value),
                None => !found.is_empty(),
            };
            match reached {
                true => met(),
                false if found.is_empty() => Verdict::Open(format!("{path} has no value")),
                false => Verdict::Open(format!("{path} is {}", found.join(" "))),
            }
        }
    }
}

/// Another object of the same name is another one.
fn gone(object: &Value, uid: Option<&str>) -> Verdict {
    if uid.is_some_and(|uid| object["metadata"]["uid"] != uid) {
        return Verdict::Done("deleted".into());
    }
    let holders: Vec<&str> = object["metadata"]["finalizers"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    match (object["metadata"]["deletionTimestamp"].is_string(), holders.as_slice()) {
        (false, _) => Verdict::Open("deletion has not been asked for".into()),
        (true, []) => Verdict::Open("being deleted".into()),
        (true, holders) => Verdict::Open(format!("being deleted, held by {}", holders.join(", "))),
    }
}

fn ready(object: &Value, reports: bool) -> Verdict {
    let sums_up = SUMMARIES.iter().find(|summary| find_condition(object, summary).is_some());
    if let Some(summary) = sums_up {
        return match condition(object, summary, "True") {
            Ok(()) => Verdict::Done("ready".into()),
            Err(why) => Verdict::Open(why),
        };
    }
    let seen = object["status"]["observedGeneration"] == object["metadata"]["generation"];
    if reports && !seen {
        return Verdict::Open("nothing is known of it yet".into());
    }
    let counts = [&object["spec"]["replicas"], &object["status"]["available"]].map(Value::as_i64);
    match counts {
        [Some(wanted), Some(available)] if available < wanted => {
            Verdict::Open(format!("{available} of {wanted} are available"))
        }
        _ => Verdict::Done("ready".into()),
    }
}

/// Conditions that say of a whole resource whether it is as it should be; the first that it has counts.
const SUMMARIES: [&str; 3] = ["Ready", "Complete", "Available"];

fn find_condition<'a>(object: &'a Value, wanted: &str) -> Option<&'a Value> {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.find(|one| one["type"].as_str().is_some_and(|t| t.eq_ignore_ascii_case(wanted)))
}

/// Whether a condition has a status, and speaks of what is asked for now.
fn condition(object: &Value, wanted: &str, status: &str) -> Result<(), String> {
    let Some(found) = find_condition(object, wanted) else {
        return Err(format!("there is no condition {wanted} yet"));
    };
    let observed = found["observedGeneration"].as_i64().filter(|observed| 0 < *observed);
    let generation = object["metadata"]["generation"].as_i64();
    if observed.is_some() && observed != generation {
        return Err(format!("{wanted} speaks of an older generation"));
    }
    let text = |key: &str| found[key].as_str().unwrap_or_default();
    if text("status").eq_ignore_ascii_case(status) {
        return Ok(());
    }
    let why: Vec<&str> =
        [text("reason"), text("message")].into_iter().filter(|w| !w.is_empty()).collect();
    let why = if why.is_empty() { String::new() } else { format!(": {}", why.join(", ")) };
    Err(format!("{wanted} is {}{why}", text("status")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn mk_object(generation: i64, status: Value) -> Value {
        json!({"metadata": {"name": "web", "uid": "u1", "generation": generation}, "status": status})
    }

    fn mk_condition(status: &str, observed: i64) -> Value {
        json!({"conditions": [
            {"type": "Ready", "status": status, "observedGeneration": observed, "message": "1 of 2"},
        ]})
    }

    #[track_caller]
    fn check(goal: &Goal, object: Option<Value>, expect: &str) {
        let said = match goal.judge(object.as_ref()) {
            Verdict::Done(word) => format!("done: {word}"),
            Verdict::Open(why) => format!("open: {why}"),
            Verdict::Hopeless(why) => format!("hopeless: {why}"),
        };
        assert_eq!(said, expect);
    }

    #[test]
    fn ready_means_true_for_the_newest_spec() {
        let goal = Goal::Ready { reports: true };
        check(&goal, Some(mk_object(2, mk_condition("True", 2))), "done: ready");
        check(&goal, Some(mk_object(2, mk_condition("True", 0))), "done: ready");
        check(
            &goal,
            Some(mk_object(2, mk_condition("True", 1))),
            "open: Ready speaks of an older generation",
        );
        check(&goal, Some(mk_object(2, mk_condition("False", 2))), "open: Ready is False: 1 of 2");
        check(&goal, Some(mk_object(2, json!(null))), "open: nothing is known of it yet");
        check(&goal, Some(mk_object(2, json!({"observedGeneration": 2}))), "done: ready");
        check(&goal, None, "hopeless: it was deleted while it was waited for");
        let silent = Goal::Ready { reports: false };
        check(&silent, Some(mk_object(1, json!(null))), "done: ready");
    }

    /// Sets of machines have no condition Ready; what they have instead says whether they are.
    #[test]
    fn without_ready_another_summary_counts() {
        let goal = Goal::Ready { reports: true };
        let complete = |status: &str| {
            let conditions = json!([{"type": "Complete", "status": status, "message": "0 of 3"}]);
            Some(mk_object(1, json!({"observedGeneration": 1, "conditions": conditions})))
        };
        check(&goal, complete("False"), "open: Complete is False: 0 of 3");
        check(&goal, complete("True"), "done: ready");
        let counted = |available: i64| {
            let mut object = mk_object(1, json!({"observedGeneration": 1, "available": available}));
            object["spec"] = json!({"replicas": 2});
            Some(object)
        };
        check(&goal, counted(1), "open: 1 of 2 are available");
        check(&goal, counted(2), "done: ready");
    }

    #[test]
    fn gone_means_this_very_object() {
        let goal = Goal::Gone { uid: Some("u1".into()) };
        check(&goal, None, "done: deleted");
        let mut object = mk_object(1, json!(null));
        check(&goal, Some(object.clone()), "open: deletion has not been asked for");
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        object["metadata"]["finalizers"] = json!(["fleet"]);
        check(&goal, Some(object.clone()), "open: being deleted, held by fleet");
        object["metadata"]["uid"] = json!("u2");
        check(&goal, Some(object), "done: deleted");
    }

    #[test]
    fn aims_are_reached() {
        let aim = |text: &str| Goal::Aim(text.parse().unwrap());
        let object = || Some(mk_object(1, mk_condition("False", 1)));
        check(&aim("condition=ready=false"), object(), "done: condition met");
        check(&aim("condition=Ready"), object(), "open: Ready is False: 1 of 2");
        check(&aim("condition=Other"), object(), "open: there is no condition Other yet");
        check(&aim("condition=Ready"), None, "open: it is not there");
        check(&aim("create"), object(), "done: created");
        check(&aim("create"), None, "open: it is not there");
        check(&aim("delete"), None, "done: deleted");
        check(&aim("jsonpath={.metadata.name}=web"), object(), "done: condition met");
        check(&aim("jsonpath={.metadata.name}=db"), object(), "open: {.metadata.name} is web");
        check(&aim("jsonpath={.metadata.x}"), object(), "open: {.metadata.x} has no value");
    }
}
