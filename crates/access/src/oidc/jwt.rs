//! Signed tokens: read, verified, and checked against the time and the place.
use super::keys::KeySet;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde_json::{Map, Value};

/// Clocks differ.
const LEEWAY_SECONDS: i64 = 60;

/// What is wrong with a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenProblem {
    #[error("it is no signed token")]
    Malformed,
    #[error("it is signed in a way that is not taken; RS256 and ES256 are")]
    Algorithm,
    #[error("it is signed by no key of the issuer")]
    Signature,
    #[error("it is of another issuer")]
    Issuer,
    #[error("it is made for another audience")]
    Audience,
    #[error("it has expired, or says not when it does")]
    Expired,
    #[error("it is not valid yet")]
    NotYet,
}

/// The ways of signing that are taken. A token chooses among them, and never "none" or one that
/// takes the public key for a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Rs256,
    Es256,
}

/// A token that was taken apart; nothing in it is proven.
pub struct Read<'a> {
    signed: &'a str,
    signature: Vec<u8>,
    algorithm: Algorithm,
    key_id: Option<String>,
    claims: Map<String, Value>,
}

pub fn read(token: &str) -> Result<Read<'_>, TokenProblem> {
    let (signed, signature) = token.rsplit_once('.').ok_or(TokenProblem::Malformed)?;
    let (header, payload) = signed.split_once('.').ok_or(TokenProblem::Malformed)?;
    let header = object(header)?;
    let text = |key: &str| header.get(key).and_then(Value::as_str);
    // An extension that must be understood is not.
    if header.contains_key("crit") {
        return Err(TokenProblem::Malformed);
    }
    let algorithm = match text("alg") {
        Some("RS256") => Algorithm::Rs256,
        Some("ES256") => Algorithm::Es256,
        Some(_) | None => return Err(TokenProblem::Algorithm),
    };
    Ok(Read {
        signed,
        signature: BASE64.decode(signature).map_err(|_| TokenProblem::Malformed)?,
        algorithm,
        key_id: text("kid").map(str::to_owned),
        claims: object(payload)?,
    })
}

fn object(part: &str) -> Result<Map<String, Value>, TokenProblem> {
    let bytes = BASE64.decode(part).map_err(|_| TokenProblem::Malformed)?;
    serde_json::from_slice(&bytes).map_err(|_| TokenProblem::Malformed)
}

impl Read<'_> {
    pub fn key_id(&self) -> Option<&str> {
        self.key_id.as_deref()
    }

    /// The claims, if one of the keys signed them.
    pub fn verify(self, keys: &KeySet) -> Result<Claims, TokenProblem> {
        let signed = self.signed.as_bytes();
        if !keys.verify(self.algorithm, self.key_id(), signed, &self.signature) {
            return Err(TokenProblem::Signature);
        }
        Ok(Claims(self.claims))
    }
}

/// What an issuer says of somebody.
pub struct Claims(Map<String, Value>);

impl Claims {
    pub fn text(&self, claim: &str) -> Option<&str> {
        self.0.get(claim).and_then(Value::as_str)
    }

    /// One text, or a list of them.
    pub fn texts(&self, claim: &str) -> Vec<&str> {
        match self.0.get(claim) {
            Some(Value::String(one)) => vec![one],
            Some(Value::Array(many)) => many.iter().filter_map(Value::as_str).collect(),
            Some(_) | None => Vec::new(),
        }
    }

    fn seconds(&self, claim: &str) -> Option<i64> {
        let value = self.0.get(claim)?;
        value.as_i64().or_else(|| value.as_f64().map(|seconds| seconds as i64))
    }

    /// When it ends, if it is good now and here.
    pub fn check(&self, issuer: &str, audience: &str, now: i64) -> Result<i64, TokenProblem> {
        if self.text("iss") != Some(issuer) {
            return Err(TokenProblem::Issuer);
        }
        if !self.texts("aud").contains(&audience) {
            return Err(TokenProblem::Audience);
        }
        let end = self.seconds("exp").ok_or(TokenProblem::Expired)?;
        let end = end.saturating_add(LEEWAY_SECONDS);
        if end <= now {
            return Err(TokenProblem::Expired);
        }
        let begin = self.seconds("nbf").unwrap_or(i64::MIN);
        if now.saturating_add(LEEWAY_SECONDS) < begin {
            return Err(TokenProblem::NotYet);
        }
        Ok(end)
    }
}
