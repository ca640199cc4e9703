//! Several watches as one stream of changes.
//!
//! ```text
//!   server ──events──> lasting (begins again by itself) ──changes──> known (pure) ──news──> output
//! ```
mod known;
mod lasting;
mod link;

pub use known::{Known, News};
pub use lasting::{Away, Patience};
pub use link::Link;

use crate::kinds;
use crate::output::print;
use crate::session::{Scope, Session};
use futures::stream::{BoxStream, SelectAll, StreamExt as _};
use orrery_proto::hub::v1::{Encoding, KindInfo, WatchRequest};
use serde_json::Value;
use std::collections::BTreeSet;

/// What became of a resource.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// It is there, or it is different.
    Is(Value),
    /// It is gone; this is what it was last.
    Gone(Value),
    /// Everything that is there has been told, since the start or since `Again`.
    Complete,
    /// Something was missed: everything that is there is told once more.
    Again,
}

/// What a watch has to tell.
#[derive(Clone, Debug, PartialEq)]
pub enum Told {
    Change(Change),
    /// The connection is lost, in these words; another is tried to be had.
    Lost(String),
    /// There is a connection again.
    Found,
}

impl Told {
    /// What people are told of the connection.
    pub fn notice(&self) -> Option<String> {
        match self {
            Self::Change(_) => None,
            Self::Lost(why) => Some(format!("{why}; trying to reach it again")),
            Self::Found => Some("connected again".to_owned()),
        }
    }
}

/// Changes of several kinds; each says which watch it comes from.
#[derive(Default)]
pub struct Watches {
    streams: SelectAll<BoxStream<'static, (usize, anyhow::Result<Told>)>>,
    count: usize,
    /// Those that have no connection at the moment. They share one, so it is spoken of once.
    away: BTreeSet<usize>,
}

impl Watches {
    /// Watches one kind, or one resource of it. Its changes carry the number of the watch: the first
    /// has 0, the next 1.
    pub fn add(
        &mut self,
        session: &Session,
        kind: &KindInfo,
        scope: &Scope,
        name: &str,
        patience: Patience,
    ) -> anyhow::Result<()> {
        let request = WatchRequest {
            api_version: kinds::api_version(kind),
            kind: kind.kind.clone(),
            project: if kind.cluster_scoped { String::new() } else { scope.project.clone() },
            name: name.to_owned(),
            label_selector: scope.labels.clone(),
            field_selector: scope.fields.clone(),
            resource_version: String::new(),
            encoding: Encoding::Json.into(),
            include_lineage: session.lineage,
        };
        let projects = kinds::find(&session.known, PROJECTS)?;
        let number = self.count;
        self.count += 1;
        let changes = lasting::changes(session.link.clone(), request, projects, patience);
        self.streams.push(changes.map(move |change| (number, change)).boxed());
        Ok(())
    }

    /// The next change of any of them. It never ends by itself: an end is an error. A connection that
    /// is lost and found again is spoken of on standard error.
    pub async fn next(&mut self) -> (usize, anyhow::Result<Change>) {
        loop {
            match self.next_told().await {
                (number, Ok(Told::Change(change))) => return (number, Ok(change)),
                (number, Err(error)) => return (number, Err(error)),
                (_, Ok(told)) => told.notice().iter().for_each(|notice| print::note(notice)),
            }
        }
    }

    /// The same for those who say themselves what became of the connection.
    pub async fn next_told(&mut self) -> (usize, anyhow::Result<Told>) {
        loop {
            let Some((number, told)) = self.streams.next().await else {
                return std::future::pending().await;
            };
            let news = match &told {
                Ok(Told::Lost(_)) => self.away.insert(number) && self.away.len() == 1,
                Ok(Told::Found) => self.away.remove(&number) && self.away.is_empty(),
                Ok(Told::Change(_)) | Err(_) => true,
            };
            if news {
                return (number, told);
            }
        }
    }
}

/// The kind of projects, as every server has it.
const PROJECTS: &str = "projects";

/// The project and the name of a resource.
pub fn key(object: &Value) -> (String, String) {
    let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
    (text("project"), text("name"))
}
