//! A plain port trusts everybody who reaches it, and a browser reaches it for any page that it shows: such
//! requests are refused.
//!
//! ```text
//!   Sec-Fetch-Site: cross-site, same-site   another page made the browser ask
//!   Origin: http://elsewhere                the same, from browsers that do not say the first
//!   Host: elsewhere                         a page whose name was made to mean this machine
//! ```
//! The last is asked of ports on loopback only: beyond it a server has names that nobody told it. Calls of
//! gRPC may go to any name: no browser makes them without being allowed to, which it never is here.
//!
//! On an encrypted port a browser shows its certificate for any page, too, and opens WebSockets for any page: the first
//! two are asked there of WebSockets, and of requests with a certificate that are made to change something. What is
//! only read, no other page gets to see, and a link may lead to the console.
use crate::websocket;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Request, header};
use std::net::IpAddr;
use std::sync::Arc;

const SEC_FETCH_SITE: &str = "sec-fetch-site";
const LOCALHOST: &str = "localhost";
const SECURE: &str = "https://";

/// What is asked of requests on a plain port. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Browsers {
    /// The names that the port has beside localhost and addresses; none where any name will do.
    names: Option<Arc<[String]>>,
}

impl Browsers {
    /// For a port on loopback, and the URL at which others reach it, if it was told one.
    pub fn on_loopback(advertise: Option<&str>) -> Self {
        let url = advertise.and_then(|url| url.parse::<axum::http::Uri>().ok());
        let name = url.as_ref().and_then(|url| url.host()).map(str::to_ascii_lowercase);
        Self { names: Some(name.into_iter().collect()) }
    }

    /// For a port that any machine reaches.
    pub fn beyond_loopback() -> Self {
        Self { names: None }
    }

    /// Why a request is refused, if it is; `grpc` says whether it is a call of gRPC.
    pub fn refuses<B>(&self, request: &Request<B>, grpc: bool) -> Option<String> {
        let headers = request.headers();
        let host = || host_of(request);
        let why = site(headers).or_else(|| origin(headers, host)).or_else(|| {
            let names = self.names.as_deref().filter(|_| !grpc)?;
            unknown_host(names, host()?)
        })?;
        Some(format!("{why}; a port without certificates trusts everybody who reaches it"))
    }
}

/// The same on an encrypted port; `proven` says whether a certificate came with the connection.
pub fn refuses_encrypted<B>(request: &Request<B>, proven: bool) -> Option<String> {
    let changes = proven && !request.method().is_safe();
    if !changes && !websocket::is_asked(request) {
        return None;
    }
    let headers = request.headers();
    let insecure = || {
        // What was not encrypted may be anybody's, whatever its name is.
        let origin = text(headers, header::ORIGIN.as_str())?;
        (!origin.starts_with(SECURE)).then(|| {
            format!("a web page of {origin:?} made a browser ask: serve the page from this address")
        })
    };
    let host = || host_of(request);
    let why = site(headers).or_else(insecure).or_else(|| origin(headers, host))?;
    Some(format!("{why}; who is known by the connection is known to every page of their browser"))
}

fn host_of<B>(request: &Request<B>) -> Option<&str> {
    let authority = || request.uri().authority().map(Authority::as_str);
    text(request.headers(), header::HOST.as_str()).or_else(authority)
}

/// Whether a request is a call of gRPC.
pub fn is_grpc(headers: &HeaderMap) -> bool {
    let kind = headers.get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    // What cannot be read is nothing that we know.
    headers.get(name).map(|value| value.to_str().unwrap_or("?"))
}

fn site(headers: &HeaderMap) -> Option<String> {
    let site = text(headers, SEC_FETCH_SITE)?;
    let foreign = ["cross-site", "same-site"].iter().any(|word| site.eq_ignore_ascii_case(word));
    let way_out = "open this address by itself, or use a client that is no browser";
    foreign.then(|| {
        format!("another web page made a browser ask ({SEC_FETCH_SITE}: {site}): {way_out}")
    })
}

fn origin<'a>(headers: &HeaderMap, host: impl FnOnce() -> Option<&'a str>) -> Option<String> {
    let origin = text(headers, header::ORIGIN.as_str())?;
    let from = origin.split_once("://").map(|(_, authority)| without_default_port(authority));
    let same = from
        .zip(host())
        .is_some_and(|(from, host)| from.eq_ignore_ascii_case(without_default_port(host)));
    let way_out = "use a client that is no browser, or serve the page from this address";
    (!same).then(|| format!("a web page of {origin:?} made a browser ask: {way_out}"))
}

fn without_default_port(authority: &str) -> &str {
    let stripped = authority.strip_suffix(":80").or_else(|| authority.strip_suffix(":443"));
    stripped.unwrap_or(authority)
}

fn unknown_host(names: &[String], host: &str) -> Option<String> {
    let read = host.parse::<Authority>().ok();
    let name = read.as_ref().map_or(host, Authority::host).trim_end_matches('.');
    let name = name.to_ascii_lowercase();
    let address = name.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>().is_ok();
    let local = name == LOCALHOST || name.ends_with(".localhost");
    if address || local || names.contains(&name) {
        return None;
    }
    Some(format!(
        "the host {host:?} is no name of this port: ask for it by its address or as localhost, tell the server its name with --advertise, or start it with --tls or --allow-plain"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::http::Method;

    fn refuses(browsers: &Browsers, headers: &[(&str, &str)]) -> bool {
        let mut request = Request::builder().uri("/apis");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(()).expect("a request");
        browsers.refuses(&request, is_grpc(request.headers())).is_some()
    }

    #[track_caller]
    fn check_encrypted(headers: &[(&str, &str)], with_certificate: bool, with_token: bool) {
        let socket = headers.iter().any(|(name, _)| *name == "upgrade");
        let method = if socket { Method::GET } else { Method::POST };
        let request = Request::builder().method(method).uri("/apis").header("host", "hub.example");
        let request =
            headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let request = request.body(()).expect("a request");
        let refused = |proven| refuses_encrypted(&request, proven).is_some();
        assert_eq!((refused(true), refused(false)), (with_certificate, with_token), "{headers:?}");
    }

    #[test]
    fn pages_of_others_do_not_use_what_a_browser_is_known_by() {
        let socket = [("connection", "Upgrade"), ("upgrade", "websocket")];
        let opened = |more: (&'static str, &'static str)| [socket[0], socket[1], more];
        check_encrypted(&[], false, false);
        check_encrypted(&socket, false, false);
        for own in ["https://hub.example", "https://hub.example:443"] {
            check_encrypted(&[("origin", own)], false, false);
            check_encrypted(&opened(("origin", own)), false, false);
        }
        for foreign in
            ["https://evil.example", "null", "http://hub.example", "https://hub.example:1"]
        {
            check_encrypted(&[("origin", foreign)], true, false);
            check_encrypted(&opened(("origin", foreign)), true, true);
        }
        check_encrypted(&[("sec-fetch-site", "cross-site")], true, false);
        check_encrypted(&opened(("sec-fetch-site", "same-site")), true, true);
        check_encrypted(&opened(("sec-fetch-site", "same-origin")), false, false);
        let link = Request::get("/console/").header("sec-fetch-site", "cross-site");
        let link = link.body(()).expect("a request");
        assert_eq!(refuses_encrypted(&link, true), None, "a page may lead to the console");
    }

    #[track_caller]
    fn check(headers: &[(&str, &str)], on_loopback: bool, beyond: bool) {
        let local = Browsers::on_loopback(Some("http://Orrery.example:7080"));
        assert_eq!(refuses(&local, headers), on_loopback, "on loopback: {headers:?}");
        let open = Browsers::beyond_loopback();
        assert_eq!(refuses(&open, headers), beyond, "beyond: {headers:?}");
    }

    #[test]
    fn what_no_browser_sends_is_let_in() {
        check(&[], false, false);
        let hosts = ["127.0.0.1:7080", "[::1]:7080", "10.1.2.3", "localhost", "LocalHost:7080"];
        for host in hosts.into_iter().chain(["localhost.", "a.localhost:1", "orrery.example:7080"])
        {
            check(&[("host", host)], false, false);
        }
    }

    #[test]
    fn what_other_pages_cause_is_refused() {
        let host = ("host", "127.0.0.1:7080");
        for site in ["cross-site", "same-site", "Cross-Site"] {
            check(&[host, ("sec-fetch-site", site)], true, true);
        }
        for site in ["none", "same-origin"] {
            check(&[host, ("sec-fetch-site", site)], false, false);
        }
        let foreign = ["null", "https://evil.example", "http://127.0.0.1:3000", "http://127.0.0.1"];
        for origin in foreign {
            check(&[host, ("origin", origin)], true, true);
        }
        check(&[host, ("origin", "http://127.0.0.1:7080")], false, false);
        check(&[("host", "localhost"), ("origin", "http://localhost:80")], false, false);
    }

    /// A page of a name that was made to mean this machine is of the same origin as what it asks for.
    #[test]
    fn names_that_are_not_ours_are_refused_on_loopback() {
        let bound = [("host", "evil.example:7080"), ("origin", "http://evil.example:7080")];
        check(&bound, true, false);
        check(&[("host", "localhost.evil.example")], true, false);
        check(&[("host", "127.0.0.1.evil.example")], true, false);
        check(&[("host", "notlocalhost")], true, false);
        check(&[("host", "/")], true, false);
        let call = ("content-type", "application/grpc+proto");
        check(&[("host", "hub.internal:7080"), call], false, false);
        check(&[("host", "127.0.0.1:7080"), call, ("sec-fetch-site", "cross-site")], true, true);
    }
}
