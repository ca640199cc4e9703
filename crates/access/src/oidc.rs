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
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    keys: KeySet,
    asked: Option<Instant>,
}

impl Oidc {
    pub fn new(options: OidcOptions, fetch: Arc<dyn Fetch>) -> Self {
        Self { options, fetch, known: Mutex::default() }
    }

    /// Who the bearer of a token is.
    pub async fn login(&self, token: &str, now: i64) -> Result<Login, OidcRefusal> {
        let read = jwt::read(token)?;
        let keys = self.keys(&read).await?;
        let claims = read.verify(&keys)?;
        let ends = claims.check(&self.options.issuer, &self.options.audience, now)?;
        Ok(Login { subject: self.subject(&claims)?, ends: Some(ends) })
    }

    /// The keys, fresh enough and with the one that the token names, if the issuer has it.
    async fn keys(&self, read: &jwt::Read<'_>) -> Result<KeySet, OidcRefusal> {
        let mut known = self.known.lock().await;
        let old = known.asked.map(|asked| asked.elapsed());
        let missing = !known.keys.has(read.key_id());
        let fetch = match old {
            None => true,
            Some(old) => KEYS_LIFETIME <= old || (missing && FETCH_INTERVAL_MIN <= old),
        };
        if fetch {
            known.asked = Some(Instant::now());
            match self.fetch_keys().await {
                Ok(keys) => known.keys = keys,
                // The keys from before are better than nobody.
                Err(error) if known.keys.is_empty() => return Err(OidcRefusal::Keys(error)),
                Err(error) => {
                    tracing::warn!(
                        error,
                        issuer = self.options.issuer,
                        "cannot fetch the issuer's keys"
                    );
                }
            }
        }
        Ok(known.keys.clone())
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
