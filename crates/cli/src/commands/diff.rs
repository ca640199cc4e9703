//! `orrery diff`: what an apply would change.
use super::apply::Applying;
use crate::args::{DiffArguments, Global};
use crate::exit::Differences;
use crate::hiding::Hiding;
use crate::manifests;
use crate::output::print;
use crate::output::style::{self, Style};
use crate::session::{Session, Writing};
use crate::targets::Resource;
use orrery_api::value_to_yaml;
use serde_json::Value;
use similar::TextDiff;

/// Lines around a change that help to find it.
const CONTEXT_LINES: usize = 3;

pub async fn run(global: &Global, arguments: DiffArguments) -> anyhow::Result<()> {
    let mut manifests = manifests::read(&arguments.files, arguments.project.as_deref())?;
    let session = Session::open(global, &arguments.connection).await?;
    for manifest in &mut manifests {
        manifests::mark_applied(&mut manifest.value);
    }
    manifests::check(&manifests, &session.known, "compared")?;
    let mut applying =
        Applying::new(&session, Writing { dry_run: true, force: true, ..Writing::default() });
    let hiding = Hiding::new(&session.known)?;
    let mut differ = false;
    for manifest in &manifests {
        let resource = Resource::declared(&session.known, &manifest.value)?;
        let live = session.find(&resource.name).await?;
        let (would_be, _) = applying.send(manifest).await?;
        let (mut live, mut would_be) = (live, would_be);
        let before = live.get_or_insert(Value::Null);
        hiding.hide_both(&resource.kind, before, &mut would_be);
        let live = live.filter(|live| !live.is_null());
        applying.imagine(std::slice::from_ref(manifest));
        let text = unified(&resource, live, would_be);
        if !text.is_empty() {
            differ = true;
            print::text(&coloured(&text, style::stdout()))?;
        }
    }
    if differ { Err(Differences.into()) } else { Ok(()) }
}

/// Both as YAML, without what the server alone writes.
fn unified(resource: &Resource, live: Option<Value>, would_be: Value) -> String {
    let name = &resource.name;
    let place = if name.project.is_empty() { String::new() } else { format!("{}.", name.project) };
    let file = format!("{}.{place}{}", resource.kind.singular, name.name);
    let before = live.map(comparable).unwrap_or_default();
    let after = comparable(would_be);
    TextDiff::from_lines(&before, &after)
        .unified_diff()
        .context_radius(CONTEXT_LINES)
        .header(&format!("live/{file}"), &format!("applied/{file}"))
        .to_string()
}

fn comparable(mut object: Value) -> String {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        for own in ["uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"] {
            metadata.remove(own);
        }
    }
    value_to_yaml(&object)
}

fn coloured(text: &str, style: Style) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let painted = match line.as_bytes().first() {
            _ if line.starts_with("---") || line.starts_with("+++") => style.strong(line),
            Some(b'+') => style.good(line),
            Some(b'-') => style.bad(line),
            Some(b'@') => style.faint(line),
            Some(_) | None => line.to_owned(),
        };
        out += &painted;
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_proto::hub::v1::KindInfo;
    use serde_json::json;

    fn mk_resource() -> Resource {
        let kind = KindInfo { singular: "workload".into(), ..KindInfo::default() };
        Resource::new(&kind, "shop", "web")
    }

    #[test]
    fn only_what_people_write_is_compared() {
        let live = json!({"metadata": {"name": "web", "uid": "1", "generation": 3}, "spec": {"a": 1}, "status": {"x": 1}});
        let same = json!({"metadata": {"name": "web"}, "spec": {"a": 1}});
        assert_eq!(unified(&mk_resource(), Some(live.clone()), same), "");
        let other = json!({"metadata": {"name": "web"}, "spec": {"a": 2}});
        let text = unified(&mk_resource(), Some(live), other.clone());
        assert!(
            text.starts_with("--- live/workload.shop.web\n+++ applied/workload.shop.web\n"),
            "{text}"
        );
        assert!(text.contains("\n-  a: 1\n+  a: 2\n"), "{text}");
        let created = unified(&mk_resource(), None, other);
        assert!(created.lines().skip(3).all(|line| line.starts_with('+')), "{created}");
    }
}
