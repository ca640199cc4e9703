//! What `orrery apply --prune` takes away.
use super::deleting::{self, Deleting};
use crate::manifests;
use crate::output::{print, style};
use crate::session::{Scope, Session};
use crate::targets::Resource;
use crate::waiting::{Awaited, Goal};
use anyhow::bail;
use orrery_api::Manifest;
use serde_json::Value;
use std::collections::BTreeSet;

/// Deletes what carries the labels, was applied before, and is not in the files: in all projects,
/// so that a project whose last file is gone is not forgotten.
pub async fn run(
    session: &Session,
    manifests: &[Manifest],
    selector: &str,
    dry_run: bool,
) -> anyhow::Result<Vec<Awaited>> {
    if selector.trim().is_empty() {
        bail!("--prune needs labels to look for: -l team=web");
    }
    let mut keep = BTreeSet::new();
    for manifest in manifests {
        keep.insert(Resource::declared(&session.known, &manifest.value)?.key());
    }
    let mut awaited = Vec::new();
    for (resource, object) in candidates(session, selector).await? {
        if !is_doomed(&object, keep.contains(&resource.key())) {
            continue;
        }
        let uid = object["metadata"]["uid"].as_str().unwrap_or_default().to_owned();
        let how = Deleting { dry_run, cascade: None };
        let deleted = deleting::request(session, &resource, &uid, how).await?;
        let word = style::stdout().busy("pruned");
        let note = if dry_run { " (dry run)" } else { "" };
        print::line(&format!("{} {word}{note}", resource.title()))?;
        if deleted.is_some_and(|deleted| !deleted.gone) {
            awaited.push(Awaited { resource, goal: Goal::Gone { uid: Some(uid) } });
        }
    }
    Ok(awaited)
}

/// Pure: whether a resource with the right labels goes.
fn is_doomed(object: &Value, declared: bool) -> bool {
    let already = object["metadata"]["deletionTimestamp"].is_string();
    manifests::is_applied(object) && !declared && !already
}

/// Everything with the labels that people may delete; what holds others comes last.
async fn candidates(session: &Session, selector: &str) -> anyhow::Result<Vec<(Resource, Value)>> {
    let scope = Scope { labels: selector.to_owned(), ..Scope::default() };
    let mut kinds: Vec<_> = session.known.kinds.iter().filter(|kind| !kind.server_owned).collect();
    kinds.sort_by_key(|kind| kind.cluster_scoped);
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    for kind in kinds {
        // A kind with several versions is one kind.
        if !seen.insert((&kind.group, &kind.plural)) {
            continue;
        }
        for object in session.list(kind, &scope).await? {
            found.push((Resource::of(kind, &object), object));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_apply_wrote_and_no_file_declares_goes() {
        let mut ours = json!({"metadata": {"name": "web"}});
        assert!(!is_doomed(&ours, false), "somebody else's");
        manifests::mark_applied(&mut ours);
        assert!(is_doomed(&ours, false));
        assert!(!is_doomed(&ours, true), "it is in the files");
        ours["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert!(!is_doomed(&ours, false), "it is going already");
    }
}
