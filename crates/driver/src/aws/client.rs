//! Signed requests to EC2.
use super::fault::error_of;
use super::query::Query;
use super::reply::{parse, parse_fault};
use crate::{Error, ErrorCode};
use aws_credential_types::Credentials;
use aws_sigv4::http_request::{SignableBody, SignableRequest, SigningSettings, sign};
use aws_sigv4::sign::v4;
use http::{Request, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::{Client as HttpClient, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use serde::de::DeserializeOwned;
use std::time::{Duration, SystemTime};
use tokio_util::bytes::Bytes;

/// One request; the operation it belongs to may have less time than that.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);
/// A page of a thousand instances is about 5 MiB.
const ANSWER_BYTES_MAX: usize = 32 << 20;
const FORM: &str = "application/x-www-form-urlencoded; charset=utf-8";

/// Whose requests these are.
pub(super) struct Account {
    pub region: String,
    pub credentials: Credentials,
}

#[derive(Clone)]
pub(super) struct Client {
    http: HttpClient<HttpsConnector<HttpConnector>, Full<Bytes>>,
    /// In place of the provider's own, for the region.
    endpoint: Option<String>,
}

impl Client {
    pub fn new(endpoint: Option<String>) -> Self {
        let provider = rustls::crypto::ring::default_provider();
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_provider_and_webpki_roots(provider)
            .expect("ring supports the default protocol versions")
            .https_or_http()
            .enable_http1()
            .build();
        let http = HttpClient::builder(TokioExecutor::new()).build(connector);
        Self { http, endpoint }
    }

    /// Asks, and reads the answer.
    pub async fn ask<T: DeserializeOwned>(
        &self,
        account: &Account,
        query: &Query,
    ) -> Result<T, Error> {
        let now = SystemTime::from(jiff::Timestamp::now());
        let request = signed(&self.url(&account.region), account, query, now)?;
        let late = |_| {
            let message = format!("the provider did not answer within {REQUEST_TIMEOUT:?}");
            Error::new(ErrorCode::DeadlineExceeded, message)
        };
        let (status, body) =
            tokio::time::timeout(REQUEST_TIMEOUT, self.exchange(request)).await.map_err(late)??;
        if !(200..300).contains(&status) {
            return Err(error_of(status, parse_fault(&body)));
        }
        parse(&body)
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<(u16, String), Error> {
        let unreachable = |error: &dyn std::error::Error| {
            Error::unavailable(format!("provider: {}", chain(error)))
        };
        let response = self.http.request(request).await.map_err(|error| unreachable(&error))?;
        let status = response.status().as_u16();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| unreachable(error.as_ref()))?.to_bytes();
        let text = String::from_utf8(body.to_vec());
        Ok((status, text.map_err(|_| Error::internal("the provider's answer is no text"))?))
    }

    fn url(&self, region: &str) -> String {
        if let Some(endpoint) = &self.endpoint {
            return endpoint.clone();
        }
        let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
        format!("https://ec2.{region}.{domain}/")
    }
}

/// An error with its causes, which say what really happened.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// The request for a query, signed with version 4 for this account at this time.
fn signed(
    url: &str,
    account: &Account,
    query: &Query,
    now: SystemTime,
) -> Result<Request<Full<Bytes>>, Error> {
    let body = Bytes::from(query.encode());
    let bad = |error: &dyn std::error::Error| Error::internal(format!("sign: {}", chain(error)));
    let mut request = Request::post(url)
        .header(header::CONTENT_TYPE, FORM)
        .body(Full::new(body.clone()))
        .map_err(|error| Error::invalid(format!("the endpoint {url:?}: {error}")))?;
    let identity = account.credentials.clone().into();
    let params = v4::SigningParams::builder()
        .identity(&identity)
        .region(&account.region)
        .name("ec2")
        .time(now)
        .settings(SigningSettings::default())
        .build()
        .map_err(|error| bad(&error))?
        .into();
    let headers = [(header::CONTENT_TYPE.as_str(), FORM)];
    let signable =
        SignableRequest::new("POST", url, headers.into_iter(), SignableBody::Bytes(&body))
            .map_err(|error| bad(&error))?;
    let (instructions, _signature) =
        sign(signable, &params).map_err(|error| bad(&error))?.into_parts();
    instructions.apply_to_request_http1x(&mut request);
    Ok(request)
}
