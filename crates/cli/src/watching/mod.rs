//! Several watches as one stream of changes.
use crate::kinds;
use crate::output::print;
use crate::session::{Scope, Session};
use futures::stream::{BoxStream, SelectAll, StreamExt as _};
use orrery_client::Error;
use orrery_client::commander::Watch;
use orrery_proto::hub::v1::watch_response::Type;
use orrery_proto::hub::v1::{Encoding, KindInfo, WatchRequest, WatchResponse};
use serde_json::Value;

/// What became of a resource.
#[derive(Debug)]
pub enum Change {
    /// It is there, or it is different.
    Is(Value),
    /// It is gone; this is what it was last.
    Gone(Value),
    /// Everything that was there at the start has been told.
    Complete,
}

/// Changes of several kinds; each says which watch it comes from.
#[derive(Default)]
pub struct Watches {
    streams: SelectAll<BoxStream<'static, (usize, anyhow::Result<Change>)>>,
    count: usize,
}

impl Watches {
    /// Watches one kind, or one resource of it. Its changes carry the number that is returned.
    pub async fn add(
        &mut self,
        session: &Session,
        kind: &KindInfo,
        scope: &Scope,
        name: &str,
    ) -> Result<usize, Error> {
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
        let watch = session.server.watch(request).await?;
        let number = self.count;
        self.count += 1;
        self.streams.push(changes(watch).map(move |change| (number, change)).boxed());
        Ok(number)
    }

    /// The next change of any of them. It never ends by itself: an end is an error.
    pub async fn next(&mut self) -> (usize, anyhow::Result<Change>) {
        match self.streams.next().await {
            Some(change) => change,
            None => std::future::pending().await,
        }
    }
}

/// The changes of one watch, and the error that it ends with.
fn changes(watch: Watch) -> BoxStream<'static, anyhow::Result<Change>> {
    let events = futures::stream::unfold(Some(watch), |watch| async move {
        let mut watch = watch?;
        match watch.next().await {
            Ok(Some(event)) => Some((Ok(event), Some(watch))),
            Ok(None) => Some((Err(anyhow::anyhow!("the server ended the watch")), None)),
            Err(error) => Some((Err(error.into()), None)),
        }
    });
    events
        .filter_map(|event| async move { event.and_then(|event| change(&event)).transpose() })
        .boxed()
}

fn change(event: &WatchResponse) -> anyhow::Result<Option<Change>> {
    let object = || print::json(event.resource.as_ref());
    Ok(match event.r#type() {
        Type::Added | Type::Modified => Some(Change::Is(object()?)),
        Type::Deleted => Some(Change::Gone(object()?)),
        Type::Bookmark => Some(Change::Complete),
        Type::Unspecified => None,
    })
}
