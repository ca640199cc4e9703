//! The decoders of this module for the fuzzer, with what must hold for every input: it is read, or it
//! is refused as the mistake of the client that it is.
use super::failure::Failure;
use super::query::Query;
use super::{accept, access, body, delete, exec, logs, path, review, scale, wire};
use crate::websocket;
use axum::http::{HeaderMap, HeaderValue, header};
use orrery_hub::ObjectName;
use serde_json::Value;

#[track_caller]
fn client_mistake<T>(outcome: Result<T, Failure>) -> Option<T> {
    outcome
        .map_err(|failure| {
            assert!(failure.code.is_client_error(), "{failure:?}");
            assert!(!failure.message.is_empty());
            // What it says must be text that every client can read.
            let _ = failure.to_value().to_string();
        })
        .ok()
}

pub fn query(raw: &str) {
    client_mistake(Query::parse(&axum::http::Method::DELETE, raw));
    client_mistake(logs::check_query(raw));
    client_mistake(exec::check_query(raw));
}

pub fn accept(bytes: &[u8]) {
    let Ok(value) = HeaderValue::from_bytes(bytes) else { return };
    let headers = HeaderMap::from_iter([(header::ACCEPT, value)]);
    client_mistake(accept::form(&headers));
    client_mistake(accept::discovery_form(&headers));
}

pub fn path(text: &str) {
    for segment in path::segments(text).into_iter().flatten() {
        assert!(!segment.is_empty());
    }
}

pub fn envelope(bytes: &[u8]) {
    client_mistake(wire::Envelope::open(bytes).and_then(|envelope| envelope.to_value()));
}

pub fn delete_options(bytes: &[u8]) {
    client_mistake(body::json(bytes).and_then(|options| delete::check_options(&options)));
}

pub fn scale(bytes: &[u8]) {
    let name = ObjectName::new("p", "a");
    client_mistake(body::json(bytes).and_then(|given| scale::check_given(given, &name)));
}

pub fn review(bytes: &[u8]) {
    let Some(asked) = client_mistake(body::json(bytes)) else { return };
    let spec = asked.get("spec").unwrap_or(&Value::Null);
    client_mistake(access::Attributes::of("SelfSubjectAccessReview", spec));
    for outcome in review::check_spec(spec) {
        client_mistake(outcome);
    }
}

pub fn channels(bytes: &[u8]) {
    exec::check_message(bytes);
}

/// What is offered for a WebSocket: a token is taken out of it, whatever it is.
pub fn protocols(bytes: &[u8]) {
    let Ok(offered) = HeaderValue::from_bytes(bytes) else { return };
    let request = axum::http::Request::get("/").header(header::CONNECTION, "Upgrade");
    let request = request.header(header::UPGRADE, "websocket");
    let request = request.header(header::SEC_WEBSOCKET_PROTOCOL, offered).body(());
    let mut request = request.expect("its parts are well-formed");
    let token = websocket::take_token(&mut request);
    assert!(!matches!(token, Ok(Some(token)) if token.is_empty()));
    let mut left = websocket::offered(request.headers());
    assert!(!left.any(websocket::is_token), "nobody sees it any more");
}
