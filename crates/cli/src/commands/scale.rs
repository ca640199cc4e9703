//! `orrery scale`.
use crate::args::{Global, ScaleArguments};
use crate::changing;
use crate::session::Session;
use crate::targets::{Choice, Resource};
use anyhow::bail;
use orrery_proto::hub::v1::KindInfo;
use serde_json::{Value, json};

pub async fn run(global: &Global, arguments: ScaleArguments) -> anyhow::Result<()> {
    let session = Session::open(global, &arguments.connection).await?;
    let choice = Choice::named(&arguments.words, arguments.project.as_deref());
    let resources = choice.resources(&session).await?;
    // What cannot be scaled is said before anything is.
    if let Some(other) = resources.iter().find(|resource| !scales(&resource.kind)) {
        let kinds = session.known.kinds.iter().filter(|kind| scales(kind));
        let mut names: Vec<&str> = kinds.map(|kind| kind.plural.as_str()).collect();
        names.sort_unstable();
        bail!("{} has no number of copies; {} have one", other.title(), names.join(", "));
    }
    let (wanted, expected) = (arguments.replicas, arguments.current_replicas);
    for resource in &resources {
        let scaled = |live: &Value| scaled(live, resource, wanted, expected);
        let changed = changing::change(&session, resource, arguments.dry_run, scaled).await?;
        changing::say(resource, changed, "scaled", arguments.dry_run)?;
    }
    Ok(())
}

fn scales(kind: &KindInfo) -> bool {
    !kind.copies_path.is_empty()
}

/// The object with as many copies as are wanted, if it asks for as many as are expected.
fn scaled(
    live: &Value,
    resource: &Resource,
    wanted: i32,
    expected: Option<i32>,
) -> anyhow::Result<Value> {
    let path = &resource.kind.copies_path;
    let pointer = format!("/{}", path.replace('.', "/"));
    let now = live.pointer(&pointer).and_then(Value::as_i64);
    if let Some(expected) = expected.filter(|expected| now != Some((*expected).into())) {
        let title = resource.title();
        match now {
            Some(now) => bail!("{title} was not scaled: {path} is {now}, not {expected}"),
            None => bail!("{title} was not scaled: it has no {path}, so it is not {expected}"),
        }
    }
    let mut patch = json!(wanted);
    for name in path.rsplit('.') {
        patch = json!({ name: patch });
    }
    let mut next = live.clone();
    json_patch::merge(&mut next, &patch);
    Ok(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use orrery_proto::hub::v1::ResourceName;

    #[track_caller]
    fn check(live: Value, expected: Option<i32>, outcome: Result<Value, &str>) {
        let kind = KindInfo {
            singular: "workload".into(),
            copies_path: "spec.placement.replicas".into(),
            ..KindInfo::default()
        };
        let name = ResourceName { name: "web".into(), ..ResourceName::default() };
        let done = scaled(&live, &Resource { kind, name }, 3, expected);
        match (done, outcome) {
            (Ok(next), Ok(wanted)) => assert_eq!(next, wanted),
            (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{error}"),
            (done, wanted) => panic!("{done:?} instead of {wanted:?}"),
        }
    }

    #[test]
    fn the_number_is_set_where_the_kind_keeps_it() {
        let with = |count: i32| json!({"spec": {"a": 1, "placement": {"replicas": count}}});
        check(with(1), None, Ok(with(3)));
        check(with(1), Some(1), Ok(with(3)));
        check(
            with(1),
            Some(2),
            Err("workload/web was not scaled: spec.placement.replicas is 1, not 2"),
        );
        check(json!({"spec": {"a": 1}}), None, Ok(with(3)));
        check(json!({"spec": {"a": 1}}), Some(0), Err("it has no spec.placement.replicas"));
    }
}
