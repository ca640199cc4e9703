//! `orrery patch`.
use crate::args::{Global, PatchArguments, PatchType};
use crate::changing;
use crate::manifests;
use crate::session::Session;
use crate::targets::Choice;
use anyhow::{Context as _, bail};
use json_patch::{PatchError, PatchOperation};
use orrery_api::same_json;
use serde_json::Value;

pub async fn run(global: &Global, arguments: PatchArguments) -> anyhow::Result<()> {
    let text = match (&arguments.patch, &arguments.patch_file) {
        (Some(text), _) => text.clone(),
        (None, Some(file)) => manifests::read_text(file)?,
        (None, None) => bail!("which patch? say it with -p or --patch-file"),
    };
    let patch = Patch::read(arguments.r#type, &text)?;
    let session = Session::open(global, &arguments.connection).await?;
    let choice = Choice::named(&arguments.words, arguments.project.as_deref());
    for resource in choice.resources(&session).await? {
        let changed =
            changing::change(&session, &resource, arguments.dry_run, |live| patch.apply(live));
        changing::say(&resource, changed.await?, "patched", arguments.dry_run)?;
    }
    Ok(())
}

enum Patch {
    Merge(Value),
    Json(json_patch::Patch),
}

impl Patch {
    /// JSON, or YAML, which is easier to write by hand.
    fn read(kind: PatchType, text: &str) -> anyhow::Result<Self> {
        let value: Value = serde_saphyr::from_str(text)
            .map_err(|error| anyhow::anyhow!("the patch is neither JSON nor YAML: {error}"))?;
        match kind {
            PatchType::Merge if value.is_object() => Ok(Self::Merge(value)),
            PatchType::Merge => bail!("a merge patch is an object, such as {{\"spec\": {{}}}}"),
            PatchType::Json => serde_json::from_value(value).map(Self::Json).context(
                "a JSON patch is a list of operations, such as \
                 [{\"op\": \"add\", \"path\": \"/spec/x\", \"value\": 1}]",
            ),
        }
    }

    fn apply(&self, live: &Value) -> anyhow::Result<Value> {
        let mut next = live.clone();
        match self {
            Self::Merge(patch) => json_patch::merge(&mut next, patch),
            Self::Json(patch) => {
                for (index, operation) in patch.iter().enumerate() {
                    step(&mut next, index, operation).context("the patch does not apply")?;
                }
            }
        }
        Ok(next)
    }
}

/// One operation. Numbers are tested by what they are worth; the library compares how they are written.
fn step(next: &mut Value, index: usize, operation: &PatchOperation) -> Result<(), PatchError> {
    if let PatchOperation::Test(test) = operation
        && next.pointer(test.path.as_str()).is_some_and(|found| same_json(found, &test.value))
    {
        return Ok(());
    }
    let done = json_patch::patch(next, std::slice::from_ref(operation));
    done.map_err(|mut error| {
        error.operation = index;
        error
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(kind: PatchType, text: &str, expect: Option<Value>) {
        let live = json!({"spec": {"a": 1, "list": ["x", "y"]}});
        let patched = Patch::read(kind, text).and_then(|patch| patch.apply(&live));
        assert_eq!(patched.ok(), expect, "{text}");
    }

    #[test]
    fn patches_apply_or_say_why_not() {
        use PatchType::{Json, Merge};
        check(Merge, r#"{"spec":{"a":2}}"#, Some(json!({"spec": {"a": 2, "list": ["x", "y"]}})));
        check(Merge, "spec: {a: null, list: [z]}", Some(json!({"spec": {"list": ["z"]}})));
        check(Merge, "[]", None);
        check(Merge, "{", None);
        let replace = r#"[{"op":"replace","path":"/spec/list/1","value":"z"}]"#;
        check(Json, replace, Some(json!({"spec": {"a": 1, "list": ["x", "z"]}})));
        check(Json, r#"[{"op":"test","path":"/spec/a","value":9}]"#, None);
        let test = "[{op: test, path: /spec, value: {list: [x, 'y'], a: 1.0}}]";
        check(Json, test, Some(json!({"spec": {"a": 1, "list": ["x", "y"]}})));
        check(Json, r#"[{"op":"remove","path":"/spec/nothing"}]"#, None);
        check(Json, r#"{"spec":{}}"#, None);
        let second =
            r#"[{op: test, path: /spec/a, value: 1}, {op: test, path: /spec/a, value: 2}]"#;
        let patch = Patch::read(Json, second).expect("a patch");
        let error = format!("{:#}", patch.apply(&json!({"spec": {"a": 1}})).expect_err("refused"));
        assert!(error.contains("operation '/1' failed at path '/spec/a'"), "{error}");
    }
}
