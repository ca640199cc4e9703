//! Questions to the Resource Manager: its login, its pages, its way of saying "not so fast".
use super::reply::Page;
use super::token::{Credentials, Token, TokenReply};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::{Method, Request, StatusCode, Uri, header};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use serde::de::DeserializeOwned;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

const ANSWER_BYTES_MAX: usize = 16 << 20;
/// A scale set has at most a thousand machines; a list that goes on longer goes in a circle.
const PAGES_MAX: usize = 64;
/// When a throttled answer does not say how long to wait, and the longest that is heeded.
const WAIT_DEFAULT: Duration = Duration::from_secs(30);
const WAIT_MAX: Duration = Duration::from_secs(600);

/// Asks one cloud in the name of one client.
pub struct Manager {
    credentials: Credentials,
    http: Client<HttpsConnector<HttpConnector>, Full<Bytes>>,
    token: Mutex<Option<Token>>,
    /// Until when nothing must be asked.
    throttled: parking_lot::Mutex<Option<Instant>>,
}

impl Manager {
    pub fn new(credentials: Credentials) -> Self {
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_provider_and_webpki_roots(rustls::crypto::ring::default_provider())
            .expect("ring supports the default protocol versions")
            .https_or_http()
            .enable_http1()
            .build();
        let http = Client::builder(TokioExecutor::new()).build(connector);
        Self {
            credentials,
            http,
            token: Mutex::default(),
            throttled: parking_lot::Mutex::default(),
        }
    }

    pub(super) fn url(&self, uri: &str, version: &str, more: &[(&str, &str)]) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("api-version", version).extend_pairs(more);
        // A plus is a space in forms only.
        let query = query.finish().replace('+', "%20");
        let slash = if uri.starts_with('/') { "" } else { "/" };
        format!("{}{slash}{uri}?{query}", self.credentials.resource_manager)
    }

    /// All of a list, page after page; nothing where the list is of something that is not there.
    pub(super) async fn all<T: DeserializeOwned>(&self, first: String) -> Result<Vec<T>, String> {
        let (mut found, mut url) = (Vec::new(), first.clone());
        for _ in 0..PAGES_MAX {
            let Some(page) = self.get::<Page<T>>(&url).await? else { return Ok(found) };
            found.extend(page.value);
            match page.next_link.filter(|next| !next.is_empty()) {
                None => return Ok(found),
                Some(next) => url = self.checked(next)?,
            }
        }
        Err(format!("{first} has more than {PAGES_MAX} pages"))
    }

    /// A token is shown to the Resource Manager only, wherever a page says that the next one is. It may
    /// name the port that goes without saying.
    fn checked(&self, next: String) -> Result<String, String> {
        let place = |text: &str| {
            let uri: Uri = text.parse().ok()?;
            let is_plain = uri.scheme_str()? == "http";
            let port = uri.port_u16().unwrap_or(if is_plain { 80 } else { 443 });
            Some((is_plain, uri.host()?.to_ascii_lowercase(), port))
        };
        let home = place(&self.credentials.resource_manager);
        if home.is_some() && place(&next) == home {
            return Ok(next);
        }
        Err(format!("the next page is said to be at {next}, which is not the Resource Manager"))
    }

    /// `None` where there is no such thing. A token that was withdrawn is replaced, once.
    pub(super) async fn get<T: DeserializeOwned>(&self, url: &str) -> Result<Option<T>, String> {
        let (status, body) = self.ask(url).await?;
        let (status, body) = match status {
            StatusCode::UNAUTHORIZED => {
                *self.token.lock().await = None;
                self.ask(url).await?
            }
            _ => (status, body),
        };
        match status {
            StatusCode::NOT_FOUND => Ok(None),
            status if status.is_success() => {
                let read = serde_json::from_slice(&body);
                read.map(Some).map_err(|error| format!("{url}: the answer cannot be read: {error}"))
            }
            status => Err(format!("{url}: {status}: {}", reason(&body))),
        }
    }

    async fn ask(&self, url: &str) -> Result<(StatusCode, Bytes), String> {
        self.check_throttle()?;
        let bearer = format!("Bearer {}", self.bearer().await?);
        let request =
            Request::builder().method(Method::GET).uri(url).header(header::AUTHORIZATION, bearer);
        let request = request.body(Full::default()).map_err(|error| format!("{url}: {error}"))?;
        self.exchange(request, url).await
    }

    /// One token for all questions; whoever comes first fetches it.
    async fn bearer(&self) -> Result<String, String> {
        let mut token = self.token.lock().await;
        if let Some(good) = token.as_ref().filter(|token| token.is_good(Instant::now())) {
            return Ok(good.bearer.clone());
        }
        let url = self.credentials.token_url();
        let request = Request::builder()
            .method(Method::POST)
            .uri(&url)
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(Full::from(self.credentials.form()))
            .map_err(|error| format!("{url}: {error}"))?;
        let (status, body) = self.exchange(request, &url).await?;
        if !status.is_success() {
            return Err(format!("cannot log in: {status}: {}", reason(&body)));
        }
        let reply: TokenReply = serde_json::from_slice(&body)
            .map_err(|_| "cannot log in: the answer holds no token".to_owned())?;
        let fresh = Token::new(reply, Instant::now());
        let bearer = fresh.bearer.clone();
        *token = Some(fresh);
        Ok(bearer)
    }

    async fn exchange(
        &self,
        request: Request<Full<Bytes>>,
        url: &str,
    ) -> Result<(StatusCode, Bytes), String> {
        let response = self.http.request(request).await;
        let response = response.map_err(|error| format!("{url}: {}", causes(&error)))?;
        let status = response.status();
        if status == StatusCode::TOO_MANY_REQUESTS || status == StatusCode::SERVICE_UNAVAILABLE {
            let said = response.headers().get(header::RETRY_AFTER);
            let said =
                said.and_then(|said| said.to_str().ok()?.parse().ok()).map(Duration::from_secs);
            let wait = said.unwrap_or(WAIT_DEFAULT).min(WAIT_MAX);
            *self.throttled.lock() = Some(Instant::now() + wait);
            return Err(format!("{url}: {status}; asking again after {}s", wait.as_secs()));
        }
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| format!("{url}: {error}"))?;
        Ok((status, body.to_bytes()))
    }

    fn check_throttle(&self) -> Result<(), String> {
        let mut throttled = self.throttled.lock();
        let left = throttled.map(|until| until.saturating_duration_since(Instant::now()));
        match left {
            Some(left) if !left.is_zero() => {
                Err(format!("asked to wait; asking again after {}s", left.as_secs()))
            }
            Some(_) | None => {
                *throttled = None;
                Ok(())
            }
        }
    }
}

/// What an error answer says, in its own words.
fn reason(body: &[u8]) -> String {
    let value: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let said = ["/error/message", "/error_description", "/error"]
        .iter()
        .find_map(|place| value.pointer(place)?.as_str().map(str::to_owned));
    said.unwrap_or_else(|| "without a reason".to_owned())
}

/// An error with its causes, which say what really happened.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
