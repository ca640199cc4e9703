//! Changes as messages.
use super::convert;
use crate::identity::Guard;
use futures::stream::{BoxStream, StreamExt};
use orrery_api::{Kind, Object, Scheme};
use orrery_hub::{Error, WatchEvent, WatchStream};
use orrery_proto::hub::v1::watch_response::Type;
use orrery_proto::hub::v1::{Encoding, WatchResponse};
use std::sync::Arc;

pub(super) fn encoded(
    events: WatchStream,
    scheme: Arc<Scheme>,
    guard: Guard,
    kind: Arc<Kind>,
    encoding: Encoding,
) -> BoxStream<'static, Result<WatchResponse, Error>> {
    events.map(move |event| encode(&scheme, &guard, &kind, encoding, event?)).boxed()
}

fn encode(
    scheme: &Scheme,
    guard: &Guard,
    kind: &Arc<Kind>,
    encoding: Encoding,
    event: WatchEvent,
) -> Result<WatchResponse, Error> {
    let with = |r#type: Type, object: &Object| {
        Ok(WatchResponse {
            r#type: r#type.into(),
            resource_version: object.resource_version().to_owned(),
            resource: Some(convert::encode(scheme, &guard.shown(object), kind, encoding)?),
        })
    };
    match event {
        WatchEvent::Added(object) => with(Type::Added, &object),
        WatchEvent::Modified(object) => with(Type::Modified, &object),
        WatchEvent::Deleted(object) => with(Type::Deleted, &object),
        WatchEvent::Bookmark(revision) => Ok(WatchResponse {
            r#type: Type::Bookmark.into(),
            resource_version: revision.to_string(),
            resource: None,
        }),
    }
}
