//! Bodies of requests: bounded, and in one of the few languages that we read.
use super::failure::Failure;
use super::wire::{self, Envelope};
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, header};
use orrery_api::{DecodeError, Reason, parse_json, parse_manifests};
use serde_json::Value;

/// Largest body, as in the reference: an object of the largest size as JSON, with room to spare.
pub const BODY_BYTES_MAX: usize = 3 << 20;

/// The languages in which objects are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    Json,
    Yaml,
    /// The protobuf envelope in which newer kubectl sends kinds that it has built in.
    Protobuf,
}

/// The media type of a body, without its parameters, in lower case.
pub fn media_type(headers: &HeaderMap) -> String {
    let text = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    text.unwrap_or_default().split(';').next().unwrap_or_default().trim().to_ascii_lowercase()
}

/// A body that does not say what it is, is JSON.
pub fn language(headers: &HeaderMap) -> Result<Language, Failure> {
    match media_type(headers).as_str() {
        "" | "application/json" | "*/*" => Ok(Language::Json),
        "application/yaml" | "application/x-yaml" | "text/yaml" => Ok(Language::Yaml),
        wire::MEDIA_TYPE => Ok(Language::Protobuf),
        _ => Err(Failure::unsupported_media(
            "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf",
        )),
    }
}

/// The whole body, if it is not too large.
pub async fn read(body: Body) -> Result<Vec<u8>, Failure> {
    let bytes = to_bytes(body, BODY_BYTES_MAX).await.map_err(|error| {
        let source = std::error::Error::source(&error);
        if source.is_some_and(|cause| cause.is::<http_body_util::LengthLimitError>()) {
            Failure::too_large(format!("Request entity too large: limit is {BODY_BYTES_MAX}"))
        } else {
            Failure::bad_request(format!("the body of the request could not be read: {error}"))
        }
    })?;
    Ok(bytes.to_vec())
}

/// The value in a body that is JSON or YAML, or a built-in kind in its protobuf envelope.
pub fn value(language: Language, bytes: &[u8]) -> Result<Value, Failure> {
    match language {
        Language::Json => json(bytes),
        Language::Yaml => yaml(bytes),
        Language::Protobuf => Envelope::open(bytes)?.to_value(),
    }
}

pub fn json(bytes: &[u8]) -> Result<Value, Failure> {
    parse_json(bytes).map_err(unreadable)
}

/// One document of YAML; JSON is YAML too.
pub fn yaml(bytes: &[u8]) -> Result<Value, Failure> {
    let unreadable = |message: String| {
        Failure::bad_request(format!("the body of the request is not valid YAML: {message}"))
    };
    let manifests =
        parse_manifests("body", bytes).map_err(|error| unreadable(error.to_string()))?;
    match <[_; 1]>::try_from(manifests) {
        Ok([only]) => Ok(only.value),
        Err(several) => Err(unreadable(format!("expected one object, found {}", several.len()))),
    }
}

/// Text that is no JSON value that can be used.
pub fn unreadable(error: DecodeError) -> Failure {
    match error {
        DecodeError::TooLarge { .. } => Failure::too_large(format!("the object is {error}")),
        DecodeError::Invalid(violations) => {
            let each = violations.iter().map(|violation| match violation.reason {
                Reason::Duplicate => format!("duplicate field {:?}", violation.path),
                Reason::Required
                | Reason::Invalid
                | Reason::NotSupported
                | Reason::Forbidden
                | Reason::TooLong
                | Reason::TooMany
                | Reason::TypeInvalid
                | Reason::UnknownField => violation.strict_text(),
            });
            let all = each.collect::<Vec<_>>().join(", ");
            Failure::bad_request(format!("strict decoding error: {all}"))
        }
        DecodeError::TooDeep { .. } | DecodeError::NotUtf8 { .. } | DecodeError::Syntax { .. } => {
            let message = format!("the body of the request is not valid JSON: {error}");
            Failure::bad_request(message)
        }
    }
}
