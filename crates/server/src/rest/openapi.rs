//! OpenAPI documents over HTTP.
use super::Rest;
use super::accept;
use super::discovery::{hash, is_known};
use super::failure::Failure;
use axum::body::{Body, Bytes};
use axum::extract::{Path, RawQuery, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use orrery_api::{Scheme, openapi};
use serde_json::{Map, Value, json};
use std::sync::{Arc, OnceLock};

const JSON: &str = "application/json";
/// How long a client may keep a document whose address carries its hash: a year.
const IMMUTABLE: &str = "public, immutable, max-age=31536000";

/// All documents; they never change while a server runs. They are megabytes and few ask for them, so
/// each set is made when somebody does.
pub struct OpenApi {
    scheme: Arc<Scheme>,
    v3: OnceLock<Documents>,
    v2: OnceLock<Swagger>,
}

struct Documents {
    index: Tagged,
    stored: Vec<Stored>,
}

struct Stored {
    path: String,
    text: Bytes,
    hash: String,
}

struct Swagger {
    text: Tagged,
    /// The same in protobuf.
    protobuf: Tagged,
}

/// What stands at an address that never changes, so that clients ask whether it has.
struct Tagged {
    bytes: Bytes,
    media_type: &'static str,
    etag: String,
}

impl Tagged {
    fn new(bytes: impl Into<Bytes>, media_type: &'static str) -> Self {
        let bytes = bytes.into();
        let etag = format!("\"{}\"", hash(&bytes));
        Self { bytes, media_type, etag }
    }

    /// A client that has it already is told so, without a content type: its cache would take that for the type of
    /// what it has.
    fn answer(&self, headers: &HeaderMap) -> Response {
        let mut response = if is_known(headers, &self.etag) {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            let mut response = Response::new(Body::from(self.bytes.clone()));
            set(&mut response, header::CONTENT_TYPE, self.media_type);
            response
        };
        set(&mut response, header::ETAG, &self.etag);
        set(&mut response, header::CACHE_CONTROL, "no-cache, private");
        set(&mut response, header::VARY, "Accept");
        response
    }
}

impl OpenApi {
    pub fn new(scheme: Arc<Scheme>) -> Self {
        Self { scheme, v3: OnceLock::new(), v2: OnceLock::new() }
    }

    fn v3(&self) -> &Documents {
        self.v3.get_or_init(|| Documents::new(&self.scheme))
    }

    fn v2(&self) -> &Swagger {
        self.v2.get_or_init(|| Swagger::new(&self.scheme))
    }
}

impl Documents {
    fn new(scheme: &Scheme) -> Self {
        let stored: Vec<Stored> = openapi::documents(scheme)
            .into_iter()
            .map(|document| {
                let text = document.value.to_string();
                let hash = hash(text.as_bytes());
                Stored { path: document.path, text: text.into(), hash }
            })
            .collect();
        let paths: Map<String, Value> = stored
            .iter()
            .map(|stored| (stored.path.clone(), json!({ "serverRelativeURL": stored.address() })))
            .collect();
        let index = json!({ "paths": paths }).to_string();
        Self { index: Tagged::new(index, JSON), stored }
    }
}

impl Swagger {
    fn new(scheme: &Scheme) -> Self {
        let swagger = openapi::swagger(scheme);
        let protobuf = openapi::protobuf::encode(&swagger);
        Self {
            text: Tagged::new(swagger.to_string(), JSON),
            protobuf: Tagged::new(protobuf, openapi::protobuf::MEDIA_TYPE),
        }
    }
}

impl Stored {
    fn address(&self) -> String {
        format!("/openapi/v3/{}?hash={}", self.path, self.hash)
    }
}

/// `/openapi/v3`: where each document is, under an address that changes when it does.
pub async fn index(State(rest): State<Arc<Rest>>, headers: HeaderMap) -> Response {
    rest.openapi.v3().index.answer(&headers)
}

/// `/openapi/v3/apis/GROUP/VERSION`; an address with an old hash leads to the present one.
pub async fn document(
    State(rest): State<Arc<Rest>>,
    Path(path): Path<String>,
    RawQuery(query): RawQuery,
) -> Response {
    let path = path.trim_end_matches('/');
    let Some(stored) = rest.openapi.v3().stored.iter().find(|stored| stored.path == path) else {
        return Failure::unknown_path().into_response();
    };
    let query = query.unwrap_or_default();
    let asked = form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == "hash");
    match asked {
        Some((_, asked)) if asked != stored.hash => {
            let mut response = StatusCode::MOVED_PERMANENTLY.into_response();
            set(&mut response, header::LOCATION, &stored.address());
            response
        }
        Some(_) => {
            let mut response = json_text(&stored.text);
            set(&mut response, header::CACHE_CONTROL, IMMUTABLE);
            set(&mut response, header::ETAG, &format!("\"{}\"", stored.hash));
            response
        }
        None => json_text(&stored.text),
    }
}

/// `/openapi/v2`: JSON, or the protobuf form for clients that ask for it.
pub async fn v2(State(rest): State<Arc<Rest>>, headers: HeaderMap) -> Response {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    let ranges = accept.unwrap_or("*/*").split(',').filter_map(|range| range.split(';').next());
    for range in ranges.map(str::trim) {
        match range {
            "application/json" | "application/*" | "*/*" => {
                return rest.openapi.v2().text.answer(&headers);
            }
            openapi::protobuf::MEDIA_TYPE | openapi::protobuf::MEDIA_TYPE_ASKED => {
                return rest.openapi.v2().protobuf.answer(&headers);
            }
            _ => {}
        }
    }
    accept::not_acceptable().into_response()
}

fn json_text(text: &Bytes) -> Response {
    let mut response = Response::new(Body::from(text.clone()));
    set(&mut response, header::CONTENT_TYPE, JSON);
    response
}

fn set(response: &mut Response, name: header::HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        response.headers_mut().insert(name, value);
    }
}
