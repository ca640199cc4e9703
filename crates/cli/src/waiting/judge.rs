//! Whether a resource is as it should be: pure.
use crate::args::Aim;
use crate::output::jsonpath::plain;
pub use orrery_client::judge::Verdict;
use orrery_client::judge::{condition, gone, ready};
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
