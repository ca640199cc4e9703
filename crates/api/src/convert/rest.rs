//! Keeps what a spoke cannot say in an annotation of it.
use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};

use super::ConvertError;
use crate::{kind::Kind, object::Object, violation::Violation};

/// The annotation of a spoke that holds the rest of its hub object.
pub const REST_ANNOTATION: &str = "conversion.orrery.dev/rest";

/// Keeps `rest` with `spoke`: the hub object without its metadata and without everything that the
/// spoke says itself. Fields that nobody here knows are part of it.
pub fn keep_rest(spoke: &mut Object, mut rest: Object) {
    rest.clear_metadata();
    if !says_nothing(&rest) {
        spoke.set_annotation(REST_ANNOTATION, &STANDARD.encode(rest.encode()));
    }
}

/// The hub object to which `spoke` only adds what it can say: the rest that was kept with it, or
/// an empty object. Metadata is the spoke's own, without the annotation.
pub fn take_rest(hub: &Arc<Kind>, spoke: &Object) -> Result<Object, ConvertError> {
    let mut object = match spoke.annotation(REST_ANNOTATION) {
        None => Object::new(hub),
        Some(text) => read(hub, text)?,
    };
    object.copy_metadata_from(spoke)?;
    object.remove_annotation(REST_ANNOTATION);
    Ok(object)
}

fn read(hub: &Arc<Kind>, text: &str) -> Result<Object, ConvertError> {
    let bytes = STANDARD.decode(text).map_err(|_| {
        let path = format!("metadata.annotations[{REST_ANNOTATION}]");
        let why = "must stay as the server wrote it: remove it or restore it";
        ConvertError::Invalid(vec![Violation::invalid(path, format_args!("{text:?}"), why)])
    })?;
    Ok(Object::decode(hub, &bytes)?)
}

/// Whether only the type is left, and at most an empty spec.
fn says_nothing(rest: &Object) -> bool {
    let mut blank = Object::new(rest.kind());
    if blank == *rest {
        return true;
    }
    if let Some(spec) = rest.kind().numbers.spec {
        blank.record_mut().record_mut(spec);
    }
    blank == *rest
}
