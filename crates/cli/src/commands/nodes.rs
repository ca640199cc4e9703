//! `orrery cordon`, `orrery uncordon` and `orrery drain`.
use crate::args::{DrainArguments, Global, NodesArguments};
use crate::session::{Scope, Session};
use crate::targets::Resource;
use crate::waiting;
use crate::watching::{Change, Patience, Watches, key};
use crate::{changing, kinds};
use anyhow::bail;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// What is wanted of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    Open,
    Closed,
    Empty,
}

impl Wanted {
    /// What this changes in the spec; null takes away.
    fn patch(self) -> Value {
        match self {
            Self::Open => json!({"spec": {"unschedulable": null, "drain": null}}),
            Self::Closed => json!({"spec": {"unschedulable": true}}),
            Self::Empty => json!({"spec": {"unschedulable": true, "drain": true}}),
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Open => "uncordoned",
            Self::Closed => "cordoned",
            Self::Empty => "is being drained",
        }
    }
}

pub async fn run(global: &Global, arguments: NodesArguments, wanted: Wanted) -> anyhow::Result<()> {
    let session = Session::open(global, &arguments.connection).await?;
    write(&session, &arguments.nodes, wanted).await
}

pub async fn drain(global: &Global, arguments: DrainArguments) -> anyhow::Result<()> {
    let session = Session::open(global, &arguments.connection).await?;
    write(&session, &arguments.nodes, Wanted::Empty).await?;
    if arguments.no_wait {
        return Ok(());
    }
    let mut copies = Copies::watch(&session, &arguments.nodes)?;
    let Some(limit) = arguments.timeout else { return copies.until_gone().await };
    if let Ok(outcome) = tokio::time::timeout(limit, copies.until_gone()).await {
        return outcome;
    }
    bail!(
        "timed out after {} s: {} are still there; a copy leaves when its workload can miss it (updateStrategy.maxUnavailable), which takes room on another node",
        limit.as_secs(),
        copies.left().join(", ")
    )
}

async fn write(session: &Session, nodes: &[String], wanted: Wanted) -> anyhow::Result<()> {
    let kind = kinds::find(&session.known, "nodes")?;
    for node in nodes {
        let resource = Resource::new(kind, "", node);
        let changed = changing::change(session, &resource, false, |live| {
            let mut next = live.clone();
            json_patch::merge(&mut next, &wanted.patch());
            Ok(next)
        });
        changing::say(&resource, changed.await?, wanted.word(), false)?;
    }
    Ok(())
}

/// The copies on some nodes, as they go.
struct Copies {
    watches: Watches,
    nodes: Vec<Node>,
}

struct Node {
    resource: Resource,
    /// By project and name.
    copies: BTreeSet<(String, String)>,
    /// All that were there at the start have been told.
    complete: bool,
    /// That it is empty has been said.
    said: bool,
}

impl Copies {
    fn watch(session: &Session, nodes: &[String]) -> anyhow::Result<Self> {
        let (kind, of) = (
            kinds::find(&session.known, "workloadinstances")?,
            kinds::find(&session.known, "nodes")?,
        );
        let mut watches = Watches::default();
        let mut all = Vec::new();
        for node in nodes {
            let scope = Scope { fields: format!("spec.node={node}"), ..Scope::default() };
            watches.add(session, kind, &scope, "", Patience::Always)?;
            let resource = Resource::new(of, "", node);
            all.push(Node { resource, copies: BTreeSet::new(), complete: false, said: false });
        }
        Ok(Self { watches, nodes: all })
    }

    async fn until_gone(&mut self) -> anyhow::Result<()> {
        while self.nodes.iter().any(|node| !node.said) {
            let (number, change) = self.watches.next().await;
            let Some(node) = self.nodes.get_mut(number) else { continue };
            node.take(&change?);
            if node.complete && node.copies.is_empty() && !node.said {
                node.said = true;
                waiting::say(&node.resource, "is empty")?;
            }
        }
        Ok(())
    }

    fn left(&self) -> Vec<String> {
        let all = self.nodes.iter().flat_map(|node| &node.copies);
        all.map(|(project, name)| format!("{project}/{name}")).collect()
    }
}

impl Node {
    fn take(&mut self, change: &Change) {
        match change {
            Change::Is(object) => drop(self.copies.insert(key(object))),
            Change::Gone(object) => drop(self.copies.remove(&key(object))),
            Change::Complete => self.complete = true,
            Change::Again => {
                self.copies.clear();
                self.complete = false;
            }
        }
    }
}
