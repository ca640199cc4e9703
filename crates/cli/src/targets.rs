//! Which resources a person means: `workloads`, `workload hello`, `workload/hello`, and selectors.
use crate::kinds;
use crate::session::{Scope, Session};
use anyhow::bail;
use orrery_api::SHARED_FROM;
use orrery_proto::hub::v1::{DiscoverResponse, KindInfo, ResourceName};
use serde_json::Value;

/// What the words of a command mean.
#[derive(Clone, Debug, PartialEq)]
pub enum Words {
    /// Everything of these kinds.
    Kinds(Vec<KindInfo>),
    /// Resources by kind and name.
    Named(Vec<(KindInfo, String)>),
}

/// Reads the words.
pub fn read(known: &DiscoverResponse, words: &[String]) -> anyhow::Result<Words> {
    let slashed = words.iter().filter(|word| word.contains('/')).count();
    if slashed == 0 {
        let Some((kinds, names)) = words.split_first() else { bail!("which kind?") };
        let found = kinds::find_all(known, kinds)?;
        if names.is_empty() {
            return Ok(Words::Kinds(found.into_iter().cloned().collect()));
        }
        let pairs =
            found.iter().flat_map(|kind| names.iter().map(|name| ((*kind).clone(), name.clone())));
        return Ok(Words::Named(pairs.collect()));
    }
    if slashed < words.len() {
        bail!("write KIND NAME or KIND/NAME, not both in one command");
    }
    let pairs = words.iter().map(|word| slash(known, word));
    Ok(Words::Named(pairs.collect::<Result<_, _>>()?))
}

/// `workload/hello`.
pub fn slash(known: &DiscoverResponse, word: &str) -> anyhow::Result<(KindInfo, String)> {
    match word.split_once('/') {
        Some((kind, name)) if !kind.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok((kinds::find(known, kind)?.clone(), name.to_owned()))
        }
        _ => bail!("{word:?} is not of the form KIND/NAME"),
    }
}

/// One resource that a command works on.
#[derive(Clone, Debug)]
pub struct Resource {
    pub kind: KindInfo,
    pub name: ResourceName,
}

impl Resource {
    pub fn new(kind: &KindInfo, project: &str, name: &str) -> Self {
        Self { kind: kind.clone(), name: kinds::named(kind, project, name) }
    }

    /// The resource that an object is.
    pub fn of(kind: &KindInfo, object: &Value) -> Self {
        let metadata = &object["metadata"];
        let text = |key: &str| metadata[key].as_str().unwrap_or_default();
        let project = if text("project").is_empty() { text("namespace") } else { text("project") };
        Self::new(kind, project, text("name"))
    }

    /// The resource that a manifest declares.
    pub fn declared(known: &DiscoverResponse, value: &Value) -> anyhow::Result<Self> {
        let text = |key: &str| value[key].as_str().unwrap_or_default();
        let version = text("apiVersion");
        let exact = known
            .kinds
            .iter()
            .find(|kind| kind.kind == text("kind") && kinds::api_version(kind) == version);
        let kind = match exact {
            Some(kind) => kind,
            None => kinds::find(known, text("kind"))?,
        };
        Ok(Self::of(kind, value))
    }

    /// `workload/hello`, as a person would name it.
    pub fn title(&self) -> String {
        format!("{}/{}", self.kind.singular, self.name.name)
    }

    /// Tells resources apart.
    pub fn key(&self) -> (String, String, String) {
        let kind = format!("{}.{}", self.kind.plural, self.kind.group);
        (kind, self.name.project.clone(), self.name.name.clone())
    }
}

/// How a command that changes things is told which ones.
pub struct Choice<'a> {
    pub words: &'a [String],
    pub project: Option<&'a str>,
    pub all_projects: bool,
    pub selector: Option<&'a str>,
    pub all: bool,
}

impl<'a> Choice<'a> {
    /// By name alone.
    pub fn named(words: &'a [String], project: Option<&'a str>) -> Self {
        Self { words, project, all_projects: false, selector: None, all: false }
    }

    /// The resources that are meant. A kind alone means all of it only when that was said.
    pub async fn resources(&self, session: &Session) -> anyhow::Result<Vec<Resource>> {
        let project = session.project(self.project, self.all_projects);
        let by_label = self.selector.is_some() || self.all;
        match read(&session.known, self.words)? {
            Words::Named(_) if by_label => {
                bail!("name resources, or select them with --selector or --all, not both")
            }
            Words::Named(pairs) => {
                if project.is_empty() && pairs.iter().any(|(kind, _)| !kind.cluster_scoped) {
                    bail!("a name is unique in its project only; say which one with --project");
                }
                Ok(pairs.iter().map(|(kind, name)| Resource::new(kind, &project, name)).collect())
            }
            Words::Kinds(_) if !by_label => {
                bail!("which ones? name them, or say --selector or --all")
            }
            Words::Kinds(kinds) => {
                let labels = self.selector.unwrap_or_default().to_owned();
                let scope = Scope { project, labels, fields: String::new() };
                let mut found = Vec::new();
                for kind in &kinds {
                    let objects = session.list(kind, &scope).await?;
                    // What others share with the project is not the project's to change.
                    let own = objects.iter().filter(|object| !is_shared(object));
                    found.extend(own.map(|object| Resource::of(kind, object)));
                }
                Ok(found)
            }
        }
    }
}

/// Whether an object is shown here and is another project's.
fn is_shared(object: &Value) -> bool {
    object["metadata"]["annotations"].get(SHARED_FROM).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_known() -> DiscoverResponse {
        let kind = |kind: &str| KindInfo {
            kind: kind.into(),
            plural: format!("{}s", kind.to_lowercase()),
            singular: kind.to_lowercase(),
            ..KindInfo::default()
        };
        DiscoverResponse { kinds: vec![kind("Workload"), kind("Node")], ..Default::default() }
    }

    #[track_caller]
    fn check(words: &str, expect: &str) {
        let typed: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let said = match read(&mk_known(), &typed) {
            Ok(Words::Kinds(kinds)) => {
                kinds.iter().map(|kind| kind.kind.clone()).collect::<Vec<_>>().join(" ")
            }
            Ok(Words::Named(pairs)) => {
                let each = pairs.iter().map(|(kind, name)| format!("{}:{name}", kind.kind));
                each.collect::<Vec<_>>().join(" ")
            }
            Err(_) => "error".to_owned(),
        };
        assert_eq!(said, expect, "{words}");
    }

    #[test]
    fn words_mean_kinds_or_names() {
        check("workloads", "Workload");
        check("workloads,nodes", "Workload Node");
        check("workload a b", "Workload:a Workload:b");
        check("workload,node a", "Workload:a Node:a");
        check("workload/a node/b", "Workload:a Node:b");
        check("workload/a b", "error");
        check("workload/", "error");
        check("/a", "error");
        check("workload/a/b", "error");
        check("pods", "error");
        check("", "error");
    }
}
