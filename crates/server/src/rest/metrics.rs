//! `/metrics`, as Prometheus reads it.
use super::Rest;
use super::failure::Failure;
use crate::metrics::{CONTENT_TYPE, classic};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

/// Who asks for OpenMetrics gets it, and everybody else the text from before it.
const OPEN: &str = "application/openmetrics-text";

pub async fn metrics(State(rest): State<Arc<Rest>>, headers: HeaderMap) -> Response {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|one| one.to_str().ok());
    let open = accepted.into_iter().any(|one| one.contains(OPEN));
    let figures = rest.metrics.clone();
    // Some are read from files.
    let text = tokio::task::spawn_blocking(move || figures.text()).await;
    match text {
        Ok(Ok(text)) => {
            let (kind, text) = match open {
                true => (CONTENT_TYPE, text),
                false => (classic::CONTENT_TYPE, classic::text(&text)),
            };
            let kind = HeaderValue::from_static(kind);
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Ok(Err(error)) => Failure::internal(error).into_response(),
        Err(error) => Failure::internal(error).into_response(),
    }
}
