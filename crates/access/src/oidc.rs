//! People who are known by an OpenID Connect issuer.
//!
//! ```text
//!   token ──> jwt: signature by one of the issuer's keys, issuer, audience, time ──> claims ──> Subject
//!                          ^
//!              keys: fetched when first needed, kept, and fetched again when a token names another
//! ```
mod jwt;
mod keys;

pub use jwt::TokenProblem;
pub use keys::KeySet;

use crate::access::Login;
use crate::oidc::jwt::Claims;
use async_trait::async_trait;
use orrery_pki::{KnownBy, Subject};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;
use tokio::time::Instant;

/// An unknown key makes us ask the issuer, but not more often than this: strangers must not be able to
/// make us hammer it.
const FETCH_INTERVAL_MIN: Duration = Duration::from_secs(10);
/// Keys that an issuer took back are trusted no longer than this.
const KEYS_LIFETIME: Duration = Duration::from_secs(3600);
const DISCOVERY: &str = "/.well-known/openid-configuration";

/// For the fuzzer: a token of a stranger is taken apart and judged, whatever it says.
#[doc(hidden)]
pub fn fuzz_token(text: &str, keys: &KeySet) {
    let Ok(read) = jwt::read(text) else { return };
    let named = read.key_id().is_some();
    let known = keys.has(read.key_id());
    let Ok(claims) = read.verify(keys) else { return };
    assert!(known, "verified by a key that is not there (it names one: {named})");
    let _ = (claims.text("sub"), claims.texts("groups"), claims.check("i", "a", 0));
}

/// Where people come from, and how they are called here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OidcOptions {
    /// As it stands in the tokens.
    pub issuer: String,
    /// What the tokens must be made for.
    pub audience: String,
    /// Claims that hold the name and the groups.
    pub username_claim: String,
    pub groups_claim: String,
    /// Put before names and groups, so that nobody can be somebody else by being called alike.
    pub prefix: String,
}

/// Gets documents of the issuer.
#[async_trait]
pub trait Fetch: Send + Sync + 'static {
    /// The JSON at an address, or why not.
    async fn fetch(&self, url: &str) -> Result<Value, String>;
}

/// Why a token is not taken. The log is told; the bearer is not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OidcRefusal {
    #[error("{0}")]
    Token(#[from] TokenProblem),
    #[error("the issuer's keys cannot be had: {0}")]
    Keys(String),
    #[error("the token says no {0:?}")]
    NoName(String),
}

/// Knows people by one issuer.
pub struct Oidc {
    options: OidcOptions,
    fetch: Arc<dyn Fetch>,
    known: parking_lot::Mutex<Known>,
    /// Held by the one who asks the issuer.
    turn: Mutex<()>,
}

#[derive(Clone, Default)]
struct Known {
    keys: KeySet,
    asked: Option<Instant>,
}

impl Known {
    /// Whether the issuer is to be asked before a token that names this key is judged.
    fn is_due(&self, id: Option<&str>) -> bool {
        match self.asked.map(|asked| asked.elapsed()) {
            None => true,
            Some(old) if KEYS_LIFETIME <= old => true,
            Some(old) => !self.keys.has(id) && FETCH_INTERVAL_MIN <= old,
        }
    }
}

impl Oidc {
    pub fn new(options: OidcOptions, fetch: Arc<dyn Fetch>) -> Self {
        Self { options, fetch, known: parking_lot::Mutex::default(), turn: Mutex::default() }
    }

    /// Who the bearer of a token is.
    pub async fn login(&self, token: &str, now: i64) -> Result<Login, OidcRefusal> {
        let read = jwt::read(token)?;
        let keys = self.keys(&read).await?;
        let claims = read.verify(&keys)?;
        let ends = claims.check(&self.options.issuer, &self.options.audience, now)?;
        let audience = self.options.audience.clone();
        Ok(Login { subject: self.subject(&claims)?, ends: Some(ends), audience })
    }

    /// The keys, fresh enough and with the one that the token names, if the issuer has it. Whose key is known waits
    /// for no issuer that others have us ask.
    async fn keys(&self, read: &jwt::Read<'_>) -> Result<KeySet, OidcRefusal> {
        let id = read.key_id();
        let known = self.known.lock().clone();
        if !known.is_due(id) {
            return Ok(known.keys);
        }
        let turn = match known.keys.has(id) {
            true => self.turn.try_lock().ok(),
            false => Some(self.turn.lock().await),
        };
        let Some(_turn) = turn else { return Ok(known.keys) };
        let known = self.known.lock().clone();
        // Who had the turn before may have brought what is wanted here.
        if !known.is_due(id) {
            return Ok(known.keys);
        }
        self.asked();
        let fetched = self.fetch_keys().await;
        // Those who waited meanwhile do not ask in their turn.
        self.asked();
        match fetched {
            Ok(keys) => self.known.lock().keys = keys,
            // The keys from before are better than nobody.
            Err(error) if known.keys.is_empty() => return Err(OidcRefusal::Keys(error)),
            Err(error) => {
                let issuer = &self.options.issuer;
                tracing::warn!(error, issuer, "cannot fetch the issuer's keys");
            }
        }
        Ok(self.known.lock().keys.clone())
    }

    fn asked(&self) {
        self.known.lock().asked = Some(Instant::now());
    }

    async fn fetch_keys(&self) -> Result<KeySet, String> {
        let issuer = self.options.issuer.trim_end_matches('/');
        let found = self.fetch.fetch(&format!("{issuer}{DISCOVERY}")).await?;
        let says = found.get("issuer").and_then(Value::as_str).unwrap_or_default();
        if says != self.options.issuer {
            return Err(format!("it calls itself {says:?}"));
        }
        let url = found.get("jwks_uri").and_then(Value::as_str).ok_or("it names no jwks_uri")?;
        Ok(KeySet::read(&self.fetch.fetch(url).await?))
    }

    fn subject(&self, claims: &Claims) -> Result<Subject, OidcRefusal> {
        let OidcOptions { username_claim, groups_claim, prefix, .. } = &self.options;
        let name = claims.text(username_claim).filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| OidcRefusal::NoName(username_claim.clone()))?;
        let groups = claims.texts(groups_claim).into_iter().map(|group| format!("{prefix}{group}"));
        // Groups of our own are given by us and by nobody else.
        let groups = groups.filter(|group| !is_reserved(group)).collect();
        Ok(Subject::person(format!("{prefix}{name}"), groups, KnownBy::Oidc))
    }
}

fn is_reserved(group: &str) -> bool {
    group.starts_with("orrery:") || group.starts_with("system:")
}

#[cfg(test)]
mod tests;
