//! `/metrics`, as Prometheus reads it.
use super::Rest;
use super::failure::Failure;
use crate::metrics::CONTENT_TYPE;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use std::sync::Arc;

pub async fn metrics(State(rest): State<Arc<Rest>>) -> Response {
    let figures = rest.metrics.clone();
    // Some are read from files.
    let text = tokio::task::spawn_blocking(move || figures.text()).await;
    match text {
        Ok(Ok(text)) => {
            let kind = HeaderValue::from_static(CONTENT_TYPE);
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Ok(Err(error)) => Failure::internal(error).into_response(),
        Err(error) => Failure::internal(error).into_response(),
    }
}
