//! Events as people read them.
use crate::kinds;
use crate::output::table::{age, lookup, text};
use crate::session::{Scope, Session};
use crate::targets::Resource;
use jiff::Timestamp;
use orrery_proto::hub::v1::KindInfo;
use serde_json::Value;

/// The kind of events, as every server has it.
const EVENTS: &str = "events";

/// One event.
pub struct Happening(pub Value);

pub fn kind(session: &Session) -> anyhow::Result<&KindInfo> {
    kinds::find(&session.known, EVENTS)
}

/// Which events: of one resource, of one type, or all of a project.
pub fn scope(project: String, regarding: Option<&Resource>, r#type: Option<&str>) -> Scope {
    let mut fields = Vec::new();
    if let Some(resource) = regarding {
        fields.push(format!("spec.regarding.kind={}", resource.kind.kind));
        fields.push(format!("spec.regarding.name={}", resource.name.name));
    }
    fields.extend(r#type.map(|r#type| format!("spec.type={type}")));
    // Events about what has no project of its own may stand in any.
    let project = match regarding {
        Some(resource) if resource.kind.cluster_scoped => String::new(),
        Some(_) | None => project,
    };
    Scope { project, labels: String::new(), fields: fields.join(",") }
}

/// The events of this very object, oldest first.
pub async fn of(
    session: &Session,
    resource: &Resource,
    object: &Value,
) -> anyhow::Result<Vec<Happening>> {
    let scope = scope(resource.name.project.clone(), Some(resource), None);
    let mut found = list(session, &scope).await?;
    let uid = &object["metadata"]["uid"];
    found.retain(|one| {
        let regarding = lookup(&one.0, "spec.regarding.uid");
        regarding.is_none_or(|regarding| regarding == uid)
    });
    Ok(found)
}

/// Events, oldest first.
pub async fn list(session: &Session, scope: &Scope) -> anyhow::Result<Vec<Happening>> {
    let found = session.list(kind(session)?, scope).await?;
    let mut found: Vec<Happening> = found.into_iter().map(Happening).collect();
    sort(&mut found);
    Ok(found)
}

/// Oldest first; of the same second, in the order in which they were written.
pub fn sort(events: &mut [Happening]) {
    events.sort_by_key(|event| (last_seen(&event.0), revision(&event.0)));
}

fn revision(event: &Value) -> Option<u64> {
    lookup(event, "metadata.resourceVersion").and_then(Value::as_str)?.parse().ok()
}

fn last_seen(event: &Value) -> Option<Timestamp> {
    lookup(event, "spec.lastTimestamp").and_then(Value::as_str).and_then(|time| time.parse().ok())
}

/// What the events of a table have in common, and need not be said of each.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// They are about one resource.
    Resource,
    /// They are about the resources of one project.
    Project,
    /// They are about anything.
    All,
}

/// Rows below a header.
pub fn rows(events: &[Happening], now: Timestamp, of: Of) -> Vec<Vec<String>> {
    let mut rows = vec![header(of)];
    rows.extend(events.iter().map(|event| event.row(now, of)));
    rows
}

pub fn header(of: Of) -> Vec<String> {
    let cells = ["PROJECT", "LAST SEEN", "COUNT", "TYPE", "REASON", "OBJECT", "MESSAGE"];
    let shown = cells.into_iter().filter(|cell| match *cell {
        "PROJECT" => of == Of::All,
        "OBJECT" => of != Of::Resource,
        _ => true,
    });
    shown.map(str::to_owned).collect()
}

impl Happening {
    pub fn row(&self, now: Timestamp, of: Of) -> Vec<String> {
        let event = &self.0;
        let cell = |path: &str| text(lookup(event, path));
        let kind = cell("spec.regarding.kind").to_lowercase();
        let object = format!("{kind}/{}", cell("spec.regarding.name"));
        let mut row = Vec::new();
        if of == Of::All {
            row.push(cell("metadata.project"));
        }
        row.push(age(lookup(event, "spec.lastTimestamp"), now));
        row.extend(["spec.count", "spec.type", "spec.reason"].map(cell));
        if of != Of::Resource {
            row.push(object);
        }
        row.push(cell("spec.message"));
        row
    }
}
