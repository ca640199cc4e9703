//! The web console.
//!
//! ```text
//!   browser ──/console/──> pages, made when the program was ──┐
//!           ──/apis/...──> the REST dialect  <────────────────┘ with the rights of whoever is signed in
//! ```
//! Owns: the pages and how they are sent. They are plain HTML, CSS and modules of JavaScript, with nothing from
//! elsewhere and nothing that has to be built.
//! Not in it: data. What is shown comes from the API, which decides who may see it; the pages themselves hold
//! nothing that anybody must not see.
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::get;
use sha2::{Digest as _, Sha256};

/// Where the pages are.
pub const PATH: &str = "/console/";

/// Nothing from elsewhere is loaded, run or asked, and nobody puts these pages into theirs.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
);

const HTML: HeaderValue = HeaderValue::from_static("text/html; charset=utf-8");
const SCRIPT: HeaderValue = HeaderValue::from_static("text/javascript; charset=utf-8");
const STYLE: HeaderValue = HeaderValue::from_static("text/css; charset=utf-8");
const IMAGE: HeaderValue = HeaderValue::from_static("image/svg+xml");

macro_rules! assets {
    ($($name:literal $kind:ident),+ $(,)?) => {
        [$(($name, $kind, include_str!(concat!("../assets/", $name)))),+]
    };
}

/// Every file of the console: its name, what it is, and what is in it.
const ASSETS: [(&str, HeaderValue, &str); 18] = assets![
    "index.html" HTML,
    "console.css" STYLE,
    "icon.svg" IMAGE,
    "again.js" SCRIPT,
    "api.js" SCRIPT,
    "copies.js" SCRIPT,
    "dom.js" SCRIPT,
    "edit.js" SCRIPT,
    "form.js" SCRIPT,
    "list.js" SCRIPT,
    "logs.js" SCRIPT,
    "main.js" SCRIPT,
    "object.js" SCRIPT,
    "overview.js" SCRIPT,
    "schema.js" SCRIPT,
    "terminal.js" SCRIPT,
    "vt.js" SCRIPT,
    "yaml.js" SCRIPT,
];

/// A file as it is sent.
#[derive(Clone)]
struct Page {
    kind: HeaderValue,
    content: &'static str,
    /// Changes with the content, so that a browser keeps what it has until there is something else.
    tag: HeaderValue,
}

/// The routes of the console.
pub fn router() -> Router {
    let bare = PATH.trim_end_matches('/');
    let mut router = Router::new().route(bare, get(|| async { Redirect::permanent(PATH) }));
    for (name, kind, content) in ASSETS {
        let page = Page { kind, content, tag: tag(content) };
        let path = format!("{PATH}{}", if name == "index.html" { "" } else { name });
        router = router.merge(Router::new().route(&path, get(send)).with_state(page));
    }
    router
}

/// Whether somebody looks with a browser, and not with a program that wants data.
pub fn wants_pages(headers: &HeaderMap) -> bool {
    let accepted = headers.get(header::ACCEPT).and_then(|accepted| accepted.to_str().ok());
    accepted.is_some_and(|accepted| accepted.contains("text/html"))
}

/// Sends a browser to the console.
pub fn redirect() -> Response {
    Redirect::to(PATH).into_response()
}

async fn send(State(page): State<Page>, asked: HeaderMap) -> Response {
    let has_it = asked.get(header::IF_NONE_MATCH).is_some_and(|tag| *tag == page.tag);
    let headers = [
        (header::CONTENT_TYPE, page.kind),
        (header::ETAG, page.tag),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ];
    match has_it {
        true => (StatusCode::NOT_MODIFIED, headers).into_response(),
        false => (headers, page.content).into_response(),
    }
}

fn tag(content: &str) -> HeaderValue {
    let sum = Sha256::digest(content.as_bytes());
    let sum: String = sum.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    HeaderValue::try_from(format!("\"{sum}\"")).expect("hexadecimal digits in quotes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use axum::http::Request;
    use http_body_util::BodyExt as _;
    use std::collections::BTreeSet;
    use tower::ServiceExt as _;

    async fn asked(path: &str, tag: Option<&HeaderValue>) -> (StatusCode, HeaderMap, String) {
        let mut request = Request::get(path);
        if let Some(tag) = tag {
            request = request.header(header::IF_NONE_MATCH, tag);
        }
        let request = request.body(Body::empty()).expect("a request");
        let (head, body) = router().oneshot(request).await.expect("infallible").into_parts();
        let body = body.collect().await.expect("a body").to_bytes();
        (head.status, head.headers, String::from_utf8(body.into()).expect("text"))
    }

    #[tokio::test]
    async fn every_page_is_sent_once_and_says_what_it_may_do() {
        for (name, kind, content) in ASSETS {
            let path = format!("{PATH}{name}").replace("index.html", "");
            let (status, headers, body) = asked(&path, None).await;
            assert_eq!((status, body.as_str()), (StatusCode::OK, content), "{path}");
            assert_eq!(headers[header::CONTENT_TYPE], kind, "{path}");
            assert_eq!(headers[header::CONTENT_SECURITY_POLICY], POLICY, "{path}");
            let (status, _, body) = asked(&path, Some(&headers[header::ETAG])).await;
            assert_eq!((status, body.as_str()), (StatusCode::NOT_MODIFIED, ""), "{path}");
        }
        assert_eq!(asked("/console", None).await.1[header::LOCATION], PATH);
        assert_eq!(asked("/console/other.js", None).await.0, StatusCode::NOT_FOUND);
    }

    /// A file that is imported and not sent would be a page that does not work.
    #[test]
    fn what_is_named_in_a_page_is_sent() {
        let sent: BTreeSet<&str> = ASSETS.iter().map(|(name, ..)| *name).collect();
        let mut named = BTreeSet::from(["index.html"]);
        for (name, _, content) in ASSETS {
            let quoted = content.split('"').skip(1).step_by(2);
            let files = quoted.map(|word| word.strip_prefix("./").unwrap_or(word));
            let is_file =
                |word: &&str| [".js", ".css", ".svg"].iter().any(|end| word.ends_with(end));
            for file in files.filter(is_file) {
                assert!(sent.contains(file), "{name} names {file}");
                named.insert(file);
            }
            assert!(!content.contains("innerHTML"), "{name} reads a text as HTML");
            let outside = content.replace("http://www.w3.org/2000/svg", "").contains("://");
            assert!(!outside, "{name} names another place");
        }
        assert_eq!(named, sent, "nothing is sent that nobody asks for");
    }

    #[test]
    fn browsers_are_told_apart() {
        let mut headers = HeaderMap::new();
        assert!(!wants_pages(&headers));
        headers.insert(header::ACCEPT, HeaderValue::from_static("application/json, */*"));
        assert!(!wants_pages(&headers));
        let browser = "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8";
        headers.insert(header::ACCEPT, HeaderValue::from_static(browser));
        assert!(wants_pages(&headers));
    }
}
