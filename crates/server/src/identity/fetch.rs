//! Documents of an issuer, over HTTP.
use super::IdentityProblem;
use async_trait::async_trait;
use axum::body::Bytes;
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::StatusCode;
use hyper::body::Body as _;
use hyper_rustls::{ConfigBuilderExt as _, HttpsConnector};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use orrery_access::oidc::Fetch;
use serde_json::Value;
use std::path::Path;
use std::time::Duration;
use tokio_rustls::rustls::ClientConfig;

/// An issuer that does not answer within this is not asked for longer: people wait.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Documents of issuers have a few kB.
const DOCUMENT_BYTES_MAX: usize = 1 << 20;

/// Fetches with certificates checked against the public authorities, or one of the user's.
pub struct HttpFetch {
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
}

impl HttpFetch {
    pub fn new(root: Option<&Path>) -> Result<Self, IdentityProblem> {
        let mut config = match root {
            Some(root) => (*orrery_pki::publicly_rooted_client_config(root)?).clone(),
            None => ClientConfig::builder_with_provider(orrery_pki::crypto_provider())
                .with_safe_default_protocol_versions()
                .map_err(|error| IdentityProblem::Issuer { problem: error.to_string() })?
                .with_webpki_roots()
                .with_no_client_auth(),
        };
        // The connector says itself what it speaks.
        config.alpn_protocols.clear();
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(config)
            .https_or_http()
            .enable_http1()
            .build();
        Ok(Self { client: Client::builder(TokioExecutor::new()).build(connector) })
    }

    async fn get(&self, url: &str) -> Result<Value, String> {
        check_url(url)?;
        let url = url.parse().map_err(|_| format!("{url:?} is no address"))?;
        let answer = self.client.get(url).await.map_err(|error| root_cause(&error))?;
        if answer.status() != StatusCode::OK {
            return Err(format!("it answers with {}", answer.status()));
        }
        let body = answer.into_body();
        if DOCUMENT_BYTES_MAX < usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX) {
            return Err("its answer is too large".to_owned());
        }
        let body = Limited::new(body, DOCUMENT_BYTES_MAX).collect().await;
        let body = body.map_err(|error| error.to_string())?.to_bytes();
        serde_json::from_slice(&body).map_err(|error| format!("its answer is no JSON: {error}"))
    }
}

#[async_trait]
impl Fetch for HttpFetch {
    async fn fetch(&self, url: &str) -> Result<Value, String> {
        let answered = tokio::time::timeout(TIMEOUT, self.get(url)).await;
        answered.unwrap_or_else(|_| Err("it does not answer in time".to_owned()))
    }
}

/// Keys that came over a plain connection could be anybody's; only this machine itself is trusted so.
pub fn check_url(url: &str) -> Result<(), String> {
    let parsed: hyper::Uri = url.parse().map_err(|_| format!("{url:?} is no address"))?;
    let host = parsed.host().unwrap_or_default().trim_matches(['[', ']']);
    let local = host == "localhost"
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    match parsed.scheme_str() {
        Some("https") => Ok(()),
        Some("http") if local => Ok(()),
        _ => Err(format!("{url:?} must begin with https://")),
    }
}

fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut current = error;
    while let Some(source) = current.source() {
        current = source;
    }
    current.to_string()
}

#[cfg(test)]
mod tests {
    use super::check_url;

    #[test]
    fn plain_issuers_are_on_this_machine_only() {
        for (url, good) in [
            ("https://issuer.example", true),
            ("http://127.0.0.1:8080/x", true),
            ("http://localhost:1", true),
            ("http://[::1]:1", true),
            ("http://issuer.example", false),
            ("http://127.0.0.1.example", false),
            ("ftp://issuer.example", false),
            ("issuer.example", false),
        ] {
            assert_eq!(check_url(url).is_ok(), good, "{url}");
        }
    }
}
