//! Several watches as one stream of changes.
//!
//! ```text
//!   server ──events──> lasting (begins again by itself) ──changes──> known (pure) ──news──> output
//! ```
mod known;
mod lasting;

pub use known::{Known, News};
pub use lasting::Patience;

use crate::kinds;
use crate::session::{Scope, Session};
use futures::stream::{BoxStream, SelectAll, StreamExt as _};
use orrery_proto::hub::v1::{Encoding, KindInfo, WatchRequest};
use serde_json::Value;

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

/// Changes of several kinds; each says which watch it comes from.
#[derive(Default)]
pub struct Watches {
    streams: SelectAll<BoxStream<'static, (usize, anyhow::Result<Change>)>>,
    count: usize,
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
        };
        let projects = kinds::find(&session.known, PROJECTS)?;
        let number = self.count;
        self.count += 1;
        let changes = lasting::changes(session.server.clone(), request, projects, patience);
        self.streams.push(changes.map(move |change| (number, change)).boxed());
        Ok(())
    }

    /// The next change of any of them. It never ends by itself: an end is an error.
    pub async fn next(&mut self) -> (usize, anyhow::Result<Change>) {
        match self.streams.next().await {
            Some(change) => change,
            None => std::future::pending().await,
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
