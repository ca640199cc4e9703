//! Paths as they were before watching was an option of a list.
//!
//! ```text
//!   /apis/GROUP/VERSION/watch/namespaces/PROJECT/PLURAL         PLURAL?watch=true
//!   /apis/GROUP/VERSION/watch/namespaces/PROJECT/PLURAL/NAME    PLURAL?watch=true&fieldSelector=metadata.name=NAME
//! ```
//! Some clients still ask so; the reference answers them.
use axum::extract::Request;
use axum::http::{Method, Uri};
use axum::middleware::Next;
use axum::response::Response;

/// Brings such a path to what it means today.
pub async fn watches(mut request: Request, next: Next) -> Response {
    if matches!(*request.method(), Method::GET | Method::HEAD) {
        let uri = request.uri();
        let today = today(uri.path(), uri.query()).and_then(|text| text.parse::<Uri>().ok());
        *request.uri_mut() = today.unwrap_or_else(|| uri.clone());
    }
    next.run(request).await
}

fn today(path: &str, query: Option<&str>) -> Option<String> {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let (base, rest) = match parts.as_slice() {
        ["api", _, "watch", rest @ ..] => (&parts[..2], rest),
        ["apis", _, _, "watch", rest @ ..] => (&parts[..3], rest),
        _ => return None,
    };
    let (place, name) = match rest {
        [_] => (rest, None),
        [_, name] => (&rest[..1], Some(name)),
        ["namespaces" | "projects", _, _] => (rest, None),
        ["namespaces" | "projects", _, _, name] => (&rest[..3], Some(name)),
        _ => return None,
    };
    let mut text = format!("/{}/{}?watch=true", base.join("/"), place.join("/"));
    if let Some(name) = name {
        text += &format!("&fieldSelector=metadata.name%3D{name}");
    }
    if let Some(query) = query.filter(|query| !query.is_empty()) {
        text += &format!("&{query}");
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn older_watches_are_lists_that_go_on() {
        let cases = [
            ("/apis/g/v1/watch/workloads", None, Some("/apis/g/v1/workloads?watch=true")),
            (
                "/apis/g/v1/watch/namespaces/p/workloads",
                Some("resourceVersion=5"),
                Some("/apis/g/v1/namespaces/p/workloads?watch=true&resourceVersion=5"),
            ),
            (
                "/apis/g/v1/watch/namespaces/p/workloads/web",
                None,
                Some(
                    "/apis/g/v1/namespaces/p/workloads?watch=true&fieldSelector=metadata.name%3Dweb",
                ),
            ),
            ("/api/v1/watch/namespaces", None, Some("/api/v1/namespaces?watch=true")),
            (
                "/api/v1/watch/namespaces/p",
                None,
                Some("/api/v1/namespaces?watch=true&fieldSelector=metadata.name%3Dp"),
            ),
            (
                "/api/v1/watch/namespaces/p/events",
                None,
                Some("/api/v1/namespaces/p/events?watch=true"),
            ),
            ("/api/v1/watch", None, None),
            ("/apis/g/v1/watch/a/b/c/d", None, None),
            ("/apis/g/v1/namespaces/watch/workloads", None, None),
            ("/apis/g/watch/workloads", None, None),
        ];
        for (path, query, expect) in cases {
            assert_eq!(today(path, query).as_deref(), expect, "{path}");
        }
    }
}
