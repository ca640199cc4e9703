//! `orrery describe`: everything about a resource, for reading.
use super::happenings::{self, Happening};
use crate::args::{DescribeArguments, Global};
use crate::hiding::Hiding;
use crate::output::print;
use crate::output::style::{self, Style};
use crate::output::table::{self, labels, lookup, plain_lines};
use crate::session::{Scope, Session};
use crate::targets::{self, Resource, Words};
use anyhow::bail;
use jiff::Timestamp;
use orrery_api::value_to_yaml;
use orrery_proto::hub::v1::KindInfo;
use serde_json::Value;

pub async fn run(global: &Global, arguments: DescribeArguments) -> anyhow::Result<()> {
    let session = Session::open(global, &arguments.connection).await?;
    let project = session.project(arguments.project.as_deref(), arguments.all_projects);
    let selected = arguments.selector.is_some();
    let mut found: Vec<(KindInfo, Value)> = Vec::new();
    match targets::read(&session.known, &arguments.words)? {
        Words::Named(_) if selected => bail!("name resources, or select them, not both"),
        Words::Named(pairs) => {
            for (kind, name) in pairs {
                if project.is_empty() && !kind.cluster_scoped {
                    bail!("a name is unique in its project only; say which one with -p");
                }
                let resource = Resource::new(&kind, &project, &name);
                found.push((kind, session.get(&resource.name).await?));
            }
        }
        Words::Kinds(kinds) => {
            let labels = arguments.selector.unwrap_or_default();
            let scope = Scope { project, labels, fields: String::new() };
            for kind in kinds {
                let objects = session.list(&kind, &scope).await?;
                found.extend(objects.into_iter().map(|object| (kind.clone(), object)));
            }
        }
    }
    let hiding = Hiding::new(&session.known)?;
    for (kind, object) in &mut found {
        hiding.hide(kind, object);
    }
    if found.is_empty() {
        print::note("nothing to describe");
    }
    for (at, (kind, object)) in found.iter().enumerate() {
        if 0 < at {
            print::line("\n")?;
        }
        let events = happenings::of(&session, &Resource::of(kind, object), object).await?;
        print::lines(&description(object, &events, print::now(), style::stdout()))?;
    }
    Ok(())
}

fn description(object: &Value, events: &[Happening], now: Timestamp, style: Style) -> Vec<String> {
    let mut lines = head(object, now, style);
    for part in ["spec", "data"] {
        section(&mut lines, object, part, style);
    }
    let mut status = object["status"].clone();
    if let Some(fields) = status.as_object_mut() {
        fields.shift_remove("conditions");
    }
    section(&mut lines, &serde_json::json!({"status": status}), "status", style);
    let conditions = object["status"]["conditions"].as_array().map(Vec::as_slice);
    table_section(
        &mut lines,
        "Conditions",
        condition_rows(conditions.unwrap_or_default(), now),
        style,
    );
    table_section(
        &mut lines,
        "Events",
        happenings::rows(events, now, happenings::Of::Resource),
        style,
    );
    lines
}

/// Identity, a line each.
fn head(object: &Value, now: Timestamp, style: Style) -> Vec<String> {
    let text = |path: &str| lookup(object, path).and_then(Value::as_str).unwrap_or_default();
    let time = |path: &str| match text(path) {
        "" => String::new(),
        time => format!("{time} ({} ago)", table::age(lookup(object, path), now)),
    };
    let list = |path: &str| {
        let items = lookup(object, path).and_then(Value::as_array).into_iter().flatten();
        items.filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
    };
    let owners = lookup(object, "metadata.ownerReferences").and_then(Value::as_array);
    let owners = owners.into_iter().flatten().map(|owner| {
        format!(
            "{}/{}",
            table::text(owner.get("kind")).to_lowercase(),
            table::text(owner.get("name"))
        )
    });
    let pairs = [
        ("Name", text("metadata.name").to_owned()),
        ("Project", text("metadata.project").to_owned()),
        ("Kind", format!("{} ({})", text("kind"), text("apiVersion"))),
        ("Description", text("metadata.description").to_owned()),
        ("Labels", labels(lookup(object, "metadata.labels"))),
        ("Annotations", labels(lookup(object, "metadata.annotations"))),
        ("Created", time("metadata.creationTimestamp")),
        ("Deleting", time("metadata.deletionTimestamp")),
        ("Finalizers", list("metadata.finalizers")),
        ("Owned by", owners.collect::<Vec<_>>().join(", ")),
        ("Generation", table::text(lookup(object, "metadata.generation"))),
        ("Uid", text("metadata.uid").to_owned()),
    ];
    let shown = pairs.into_iter().filter(|(_, value)| !value.is_empty());
    shown
        .map(|(name, value)| {
            format!("{} {value}", style.strong(&format!("{:<13}", format!("{name}:"))))
        })
        .collect()
}

fn section(lines: &mut Vec<String>, object: &Value, part: &str, style: Style) {
    let Some(value) = object.get(part).filter(|value| is_something(value)) else { return };
    let mut title = part.to_owned();
    title[..1].make_ascii_uppercase();
    lines.push(style.strong(&format!("{title}:")));
    lines.extend(value_to_yaml(value).lines().map(|line| format!("  {line}")));
}

fn is_something(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Object(fields) => !fields.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

fn table_section(lines: &mut Vec<String>, title: &str, rows: Vec<Vec<String>>, style: Style) {
    if rows.len() < 2 {
        lines.push(format!("{} <none>", style.strong(&format!("{:<13}", format!("{title}:")))));
        return;
    }
    lines.push(style.strong(&format!("{title}:")));
    lines.extend(plain_lines(&rows, style).iter().map(|line| format!("  {line}")));
}

fn condition_rows(conditions: &[Value], now: Timestamp) -> Vec<Vec<String>> {
    let header = ["TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"].map(str::to_owned).to_vec();
    let row = |one: &Value| {
        let cell = |key: &str| table::text(one.get(key));
        let since = table::age(one.get("lastTransitionTime"), now);
        vec![cell("type"), cell("status"), cell("reason"), since, cell("message")]
    };
    std::iter::once(header).chain(conditions.iter().map(row)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_description_reads_from_top_to_bottom() {
        let object = json!({
            "apiVersion": "apps.orrery.dev/v1",
            "kind": "Workload",
            "metadata": {"name": "web", "project": "shop", "labels": {"app": "web"}, "generation": 2,
                "creationTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["fleet"]},
            "spec": {"process": {"args": ["60"]}},
            "status": {"state": "Running", "conditions": [
                {"type": "Ready", "status": "True", "message": "1 of 1"},
            ]},
        });
        let now: Timestamp = "2026-01-01T00:01:30Z".parse().unwrap();
        let lines = description(&object, &[], now, Style::plain());
        let text = lines.join("\n");
        for expect in [
            "Name:         web\nProject:      shop\nKind:         Workload (apps.orrery.dev/v1)",
            "Labels:       app=web\nAnnotations:  <none>\nCreated:      2026-01-01T00:00:00Z (90s ago)",
            "Finalizers:   fleet\nGeneration:   2\n",
            "Spec:\n  process:\n    args:\n",
            "Status:\n  state: Running\nConditions:\n  TYPE    STATUS   REASON   SINCE   MESSAGE",
            "  Ready   True     -        -       1 of 1\nEvents:       <none>",
        ] {
            assert!(text.contains(expect), "{expect:?} is not in:\n{text}");
        }
    }
}
