//! Changes as messages.
use super::convert::{self, Writer};
use crate::connection::in_turns;
use futures::stream::{BoxStream, StreamExt};
use orrery_api::{Encoded, Form};
use orrery_hub::{Error, WatchEvent, WatchStream};
use orrery_proto::hub::v1::WatchResponse;
use orrery_proto::hub::v1::watch_response::Type;
use prost::Message as _;

pub(super) fn encoded(
    events: WatchStream<Encoded>,
    writer: Writer,
) -> BoxStream<'static, Result<WatchResponse, Error>> {
    let form = writer.form();
    let events = events.map(move |event| encode(&writer, &form, event?));
    in_turns(events, |event| event.as_ref().map_or(0, WatchResponse::encoded_len)).boxed()
}

fn encode(
    writer: &Writer,
    form: &Form,
    event: WatchEvent<Encoded>,
) -> Result<WatchResponse, Error> {
    let with = |r#type: Type, object: &Encoded| {
        Ok(WatchResponse {
            r#type: r#type.into(),
            resource_version: object.resource_version().map_err(convert::unfit)?.to_owned(),
            resource: Some(writer.write_shared(form, object)?),
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
