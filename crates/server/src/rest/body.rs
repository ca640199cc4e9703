//! Bodies of requests: bounded, and in one of the few languages that we read.
use super::failure::Failure;
use super::query::Validation;
use super::wire::{self, Envelope};
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, StatusCode, header};
use http_body_util::BodyExt as _;
use orrery_api::{DecodeError, Reason, Violation, parse_json, parse_json_noting, parse_manifests};
use serde_json::Value;
use std::time::Duration;

/// Largest body, as in the reference: an object of the largest size as JSON, with room to spare.
pub const BODY_BYTES_MAX: usize = 3 << 20;

/// A client that sends nothing of its body for this long is not waited for any longer.
const SILENCE_MAX: Duration = Duration::from_secs(30);
/// The time a whole body may take: a minute, and as much again for every three MiB of it.
const TIME_MAX: Duration = Duration::from_secs(60);

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

/// Refuses a body that was made smaller on its way: nobody here makes it larger again.
pub fn check_encoding(headers: &HeaderMap) -> Result<(), Failure> {
    let text = headers.get(header::CONTENT_ENCODING).and_then(|value| value.to_str().ok());
    match text.map(str::trim) {
        None | Some("" | "identity") => Ok(()),
        Some(other) => Err(Failure::unsupported_media(format!(
            "the body of the request is in Content-Encoding {other:?}, which is not read here: send it as it is"
        ))),
    }
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

/// The whole body of a request about an object, if it is not too large.
pub async fn read(body: Body) -> Result<Bytes, Failure> {
    read_at_most(body, BODY_BYTES_MAX).await
}

/// The whole body, if it is not larger than this and comes in time.
pub async fn read_at_most(body: Body, bytes_max: usize) -> Result<Bytes, Failure> {
    let time =
        TIME_MAX.saturating_mul(u32::try_from(bytes_max.div_ceil(BODY_BYTES_MAX)).unwrap_or(1));
    match tokio::time::timeout(time, collect(body, bytes_max)).await {
        Ok(read) => read,
        Err(_) => Err(too_slow()),
    }
}

async fn collect(mut body: Body, bytes_max: usize) -> Result<Bytes, Failure> {
    let mut all = Vec::new();
    loop {
        let frame = match tokio::time::timeout(SILENCE_MAX, body.frame()).await {
            Err(_) => return Err(too_slow()),
            Ok(None) => return Ok(all.into()),
            Ok(Some(frame)) => frame.map_err(|error| {
                Failure::bad_request(format!("the body of the request could not be read: {error}"))
            })?,
        };
        // Trailers say nothing that we read.
        let Ok(data) = frame.into_data() else { continue };
        if bytes_max < all.len() + data.len() {
            let message = format!("Request entity too large: limit is {bytes_max}");
            return Err(Failure::too_large(message));
        }
        all.extend_from_slice(&data);
    }
}

fn too_slow() -> Failure {
    let message = "the body of the request did not come in time";
    Failure::new(StatusCode::REQUEST_TIMEOUT, "Timeout", message)
}

/// The value in a body that is JSON or YAML, or a built-in kind in its protobuf envelope.
pub fn value(language: Language, bytes: &[u8]) -> Result<Value, Failure> {
    match language {
        Language::Json => json(bytes),
        Language::Yaml => yaml(bytes),
        Language::Protobuf => Envelope::open(bytes)?.to_value(),
    }
}

/// The same where the request says what fields are that are written twice, and what to warn of.
pub fn judged(
    language: Language,
    bytes: &[u8],
    validation: Validation,
) -> Result<(Value, Vec<String>), Failure> {
    match language {
        Language::Json => judged_json(bytes, validation),
        Language::Yaml => judged_yaml(bytes, validation),
        Language::Protobuf => Ok((Envelope::open(bytes)?.to_value()?, Vec::new())),
    }
}

pub fn json(bytes: &[u8]) -> Result<Value, Failure> {
    parse_json(bytes).map_err(unreadable)
}

pub fn judged_json(bytes: &[u8], validation: Validation) -> Result<(Value, Vec<String>), Failure> {
    let (value, twice) = parse_json_noting(bytes).map_err(unreadable)?;
    judge(value, twice, validation)
}

fn judge(
    value: Value,
    twice: Vec<Violation>,
    validation: Validation,
) -> Result<(Value, Vec<String>), Failure> {
    match validation {
        Validation::Strict if !twice.is_empty() => Err(unreadable(DecodeError::Invalid(twice))),
        Validation::Warn => Ok((value, twice.iter().map(duplicate).collect())),
        Validation::Strict | Validation::Ignore => Ok((value, Vec::new())),
    }
}

/// What is written as JSON, as clients do who apply, is read as that; in other YAML a field never stands twice.
pub fn judged_yaml(bytes: &[u8], validation: Validation) -> Result<(Value, Vec<String>), Failure> {
    if bytes.trim_ascii_start().starts_with(b"{")
        && let Ok((value, twice)) = parse_json_noting(bytes)
    {
        return judge(value, twice, validation);
    }
    Ok((yaml(bytes)?, Vec::new()))
}

fn duplicate(violation: &Violation) -> String {
    format!("duplicate field {:?}", violation.path)
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
                Reason::Duplicate => duplicate(violation),
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
