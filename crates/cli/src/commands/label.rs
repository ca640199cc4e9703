//! `orrery label` and `orrery annotate`.
use crate::args::{ChangeArguments, Global};
use crate::changing;
use crate::output::print;
use crate::session::Session;
use crate::targets::Choice;
use anyhow::bail;
use serde_json::{Map, Value};

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Labels,
    Annotations,
}

impl Part {
    fn field(self) -> &'static str {
        match self {
            Self::Labels => "labels",
            Self::Annotations => "annotations",
        }
    }

    fn done(self) -> &'static str {
        match self {
            Self::Labels => "labeled",
            Self::Annotations => "annotated",
        }
    }
}

pub async fn run(global: &Global, arguments: ChangeArguments, part: Part) -> anyhow::Result<()> {
    let (words, edits) = split(&arguments.words)?;
    let session = Session::open(global, &arguments.connection).await?;
    let choice = Choice {
        words: &words,
        project: arguments.project.as_deref(),
        all_projects: arguments.all_projects,
        selector: arguments.selector.as_deref(),
        all: arguments.all,
    };
    let resources = choice.resources(&session).await?;
    if resources.is_empty() {
        print::note("nothing to change");
    }
    for resource in resources {
        let overwrite = arguments.overwrite;
        let changed = changing::change(&session, &resource, arguments.dry_run, |live| {
            edit(live, part, &edits, overwrite)
        });
        changing::say(&resource, changed.await?, part.done(), arguments.dry_run)?;
    }
    Ok(())
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Edit {
    Set(String, String),
    Remove(String),
}

/// Resources stand first, then `key=value` and `key-`.
fn split(words: &[String]) -> anyhow::Result<(Vec<String>, Vec<Edit>)> {
    let is_edit = |word: &String| word.contains('=') || word.ends_with('-');
    let first = words.iter().position(is_edit).unwrap_or(words.len());
    let (resources, edits) = words.split_at(first);
    let edits: Vec<Edit> = edits.iter().map(|word| read(word)).collect::<Result<_, _>>()?;
    match (resources, edits.as_slice()) {
        ([], _) => bail!("of which resources? they stand before the changes: workload hello a=b"),
        (_, []) => bail!("which change? write KEY=VALUE to set and KEY- to remove"),
        (resources, _) => Ok((resources.to_vec(), edits)),
    }
}

fn read(word: &str) -> anyhow::Result<Edit> {
    match (word.split_once('='), word.strip_suffix('-')) {
        (Some((key, value)), _) if !key.is_empty() => Ok(Edit::Set(key.into(), value.into())),
        (None, Some(key)) if !key.is_empty() => Ok(Edit::Remove(key.into())),
        (_, _) => bail!("{word:?} is neither KEY=VALUE nor KEY-"),
    }
}

fn edit(live: &Value, part: Part, edits: &[Edit], overwrite: bool) -> anyhow::Result<Value> {
    let mut next = live.clone();
    let Some(metadata) = next["metadata"].as_object_mut() else { bail!("it has no metadata") };
    let values = metadata.entry(part.field()).or_insert_with(|| Value::Object(Map::new()));
    let Some(values) = values.as_object_mut() else { bail!("its {} are no map", part.field()) };
    for edit in edits {
        match edit {
            Edit::Remove(key) => {
                values.shift_remove(key);
            }
            Edit::Set(key, value) => match values.get(key) {
                Some(old) if old != value.as_str() && !overwrite => {
                    bail!("{key} is {old} already; --overwrite changes it")
                }
                Some(_) | None => {
                    values.insert(key.clone(), value.as_str().into());
                }
            },
        }
    }
    if values.is_empty() {
        metadata.shift_remove(part.field());
    }
    Ok(next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[track_caller]
    fn check(labels: Value, words: &str, overwrite: bool, expect: Option<Value>) {
        let words: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let live = json!({"metadata": {"name": "web", "labels": labels}});
        let changed =
            split(&words).and_then(|(_, edits)| edit(&live, Part::Labels, &edits, overwrite));
        let labels = changed.ok().map(|next| next["metadata"]["labels"].clone());
        assert_eq!(labels, expect, "{words:?}");
    }

    #[test]
    fn labels_are_set_and_removed() {
        check(json!({}), "workload web a=1 b=", false, Some(json!({"a": "1", "b": ""})));
        check(json!({"a": "1"}), "workload/web a=1", false, Some(json!({"a": "1"})));
        check(json!({"a": "1"}), "workload/web a=2", false, None);
        check(json!({"a": "1"}), "workload/web a=2", true, Some(json!({"a": "2"})));
        check(json!({"a": "1", "b": "2"}), "workload/web a-", false, Some(json!({"b": "2"})));
        check(json!({"a": "1"}), "workload/web a- z-", false, Some(json!(null)));
        check(json!({}), "workload web", false, None);
        check(json!({}), "a=1", false, None);
        check(json!({}), "workload web =1", false, None);
        check(json!({}), "workload web a=1 oops", false, None);
    }
}
