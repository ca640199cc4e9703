//! WebSockets: what their first request says, and how it is answered.
//!
//! ```text
//!   GET ... Upgrade: websocket
//!   Sec-WebSocket-Protocol: v5.channel.k8s.io, base64url.bearer.authorization.k8s.io.TOKEN
//! ```
//! A page cannot set headers on a WebSocket, so the dialect lets it name its token among the protocols. The token is
//! taken out before anything else sees the request.
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, header};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// How the protocol begins that is a token.
const BEARER: &str = "base64url.bearer.authorization.k8s.io.";
/// The one version that there is (RFC 6455).
const VERSION: &[u8] = b"13";

/// Whether a request asks for a WebSocket.
pub fn is_asked<B>(request: &Request<B>) -> bool {
    let has = |name, word: &str| {
        words(request.headers(), name).any(|given| given.eq_ignore_ascii_case(word))
    };
    *request.method() == Method::GET
        && has(header::CONNECTION, "upgrade")
        && has(header::UPGRADE, "websocket")
}

/// The protocols that a client offers, the one that it likes best first.
pub fn offered(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    words(headers, header::SEC_WEBSOCKET_PROTOCOL)
}

fn words(headers: &HeaderMap, name: header::HeaderName) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(name).into_iter().filter_map(|line| line.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim).filter(|word| !word.is_empty())
}

/// A token among the protocols that is none, or one of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadToken;

/// Whether an offered protocol is a token, good or not.
pub fn is_token(protocol: &str) -> bool {
    protocol.starts_with(BEARER)
}

/// Takes the token out of the protocols of a request for a WebSocket.
pub fn take_token<B>(request: &mut Request<B>) -> Result<Option<String>, BadToken> {
    if !is_asked(request) {
        return Ok(None);
    }
    let (tokens, others): (Vec<&str>, Vec<&str>) =
        offered(request.headers()).partition(|protocol| is_token(protocol));
    let token = match tokens.as_slice() {
        [] => return Ok(None),
        [token] => decoded(&token[BEARER.len()..]),
        _ => Err(BadToken),
    };
    let others = HeaderValue::try_from(others.join(", ")).map_err(|_| BadToken)?;
    request.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, others);
    token.map(Some)
}

fn decoded(text: &str) -> Result<String, BadToken> {
    let bytes = URL_SAFE_NO_PAD.decode(text).map_err(|_| BadToken)?;
    let token = String::from_utf8(bytes).map_err(|_| BadToken)?;
    if token.is_empty() { Err(BadToken) } else { Ok(token) }
}

/// The answer that makes a connection a WebSocket, or what is wrong with the request.
pub fn accepted<B>(request: &Request<B>, protocol: Option<&str>) -> Result<Response, &'static str> {
    let headers = request.headers();
    let version = headers.get(header::SEC_WEBSOCKET_VERSION).map(HeaderValue::as_bytes);
    if version != Some(VERSION) {
        return Err("only version 13 of WebSockets is spoken");
    }
    let key = headers.get(header::SEC_WEBSOCKET_KEY).ok_or("Sec-WebSocket-Key is missing")?;
    let accept = derive_accept_key(key.as_bytes());
    let accept = HeaderValue::try_from(accept).map_err(|_| "Sec-WebSocket-Key is no key")?;
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    if let Some(protocol) = protocol {
        let protocol = HeaderValue::try_from(protocol);
        let protocol = protocol.map_err(|_| "Sec-WebSocket-Protocol is no protocol")?;
        headers.insert(header::SEC_WEBSOCKET_PROTOCOL, protocol);
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(protocols: &[&str]) -> Request<()> {
        let request = Request::get("/").header("connection", "keep-alive, Upgrade");
        let request = request.header("upgrade", "WebSocket");
        let request = protocols.iter().fold(request, |request, protocols| {
            request.header(header::SEC_WEBSOCKET_PROTOCOL, *protocols)
        });
        request.body(()).expect("a request")
    }

    #[track_caller]
    fn check(protocols: &[&str], expect: Result<Option<&str>, BadToken>, left: &str) {
        let mut request = request(protocols);
        let token = take_token(&mut request);
        assert_eq!(token.as_ref().map(Option::as_deref), expect.as_ref().map(|token| *token));
        let others: Vec<&str> = offered(request.headers()).collect();
        assert_eq!(others.join(" "), left);
    }

    #[test]
    fn a_token_among_the_protocols_is_taken_out() {
        let token = |text: &str| format!("{BEARER}{}", URL_SAFE_NO_PAD.encode(text));
        let (ann, bob) = (token("orrery1.ann.x?"), token("bob"));
        check(&["v5.channel.k8s.io"], Ok(None), "v5.channel.k8s.io");
        let line = format!("v5.channel.k8s.io, {ann}, v4.channel.k8s.io");
        let left = "v5.channel.k8s.io v4.channel.k8s.io";
        check(&[&line], Ok(Some("orrery1.ann.x?")), left);
        check(&[&ann, "v4.channel.k8s.io"], Ok(Some("orrery1.ann.x?")), "v4.channel.k8s.io");
        check(&[&ann], Ok(Some("orrery1.ann.x?")), "");
        check(&[&ann, &bob], Err(BadToken), "");
        check(&[BEARER], Err(BadToken), "");
        check(&[&format!("{BEARER}not/base64url")], Err(BadToken), "");
        check(&[&format!("{BEARER}_w")], Err(BadToken), "");
    }

    #[test]
    fn only_websockets_have_such_tokens() {
        let token = format!("{BEARER}{}", URL_SAFE_NO_PAD.encode("ann"));
        let mut plain = Request::get("/").header(header::SEC_WEBSOCKET_PROTOCOL, &token);
        plain = plain.header("connection", "upgrade");
        assert_eq!(take_token(&mut plain.body(()).expect("a request")), Ok(None));
        let mut posted = request(&[&token]);
        *posted.method_mut() = Method::POST;
        assert_eq!(take_token(&mut posted), Ok(None));
    }

    /// The example of RFC 6455.
    #[test]
    fn what_is_asked_well_is_accepted() {
        let mut asked = request(&["v5.channel.k8s.io"]);
        assert!(accepted(&asked, Some("v5.channel.k8s.io")).is_err());
        asked.headers_mut().insert("sec-websocket-version", HeaderValue::from_static("13"));
        assert!(accepted(&asked, Some("v5.channel.k8s.io")).is_err());
        let key = HeaderValue::from_static("dGhlIHNhbXBsZSBub25jZQ==");
        asked.headers_mut().insert("sec-websocket-key", key);
        let answer = accepted(&asked, Some("v5.channel.k8s.io")).expect("it is well-formed");
        assert_eq!(answer.headers()["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
        assert_eq!(answer.headers()["sec-websocket-protocol"], "v5.channel.k8s.io");
    }
}
