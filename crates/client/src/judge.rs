//! Whether a resource is as it should be: pure.
use serde_json::Value;

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

/// Whether this very object is gone; another object of the same name is another one.
pub fn gone(object: &Value, uid: Option<&str>) -> Verdict {
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

/// Whether its condition Ready, or the one that sums it up instead, is true for what is asked for. `reports` says
/// that somebody will look at it and write a status, so that silence means *not yet*.
pub fn ready(object: &Value, reports: bool) -> Verdict {
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

/// Whether a condition has a status, and speaks of what is asked for now; why not, otherwise.
pub fn condition(object: &Value, wanted: &str, status: &str) -> Result<(), String> {
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
