//! The text of a join token: `orrery1.<id>.<secret>.<hash of the authority's certificate>`.
//!
//! The id names the JoinToken resource, which holds a hash of the secret and nothing else of it. The
//! hash of the authority lets the joiner know its server without having anything of it.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::identity::Fingerprint;

const PREFIX: &str = "orrery1";
const BEARER_PREFIX: &str = "orrerybt1";
const SECRET_BYTES: usize = 32;
/// A resource name.
const ID_MAX: usize = 63;

/// Why a text is no join token. It never quotes the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    #[error("this is no join token; make one with: orrery token create --role agent --name NAME")]
    NotAToken,
    #[error("the join token is not whole; copy all of it, to its last letter")]
    NotWhole,
}

/// SHA-256 of a secret that nobody can guess; it may be stored and shown.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SecretHash([u8; 32]);

impl SecretHash {
    pub fn of(secret: &[u8]) -> Self {
        Self(Sha256::digest(secret).into())
    }

    /// From the hex digits that it is stored as.
    pub fn parse(text: &str) -> Option<Self> {
        Fingerprint::parse(text).map(|hash| Self(*hash.as_bytes()))
    }
}

impl fmt::Display for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for SecretHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretHash({self})")
    }
}

/// The text that a person or a program shows instead of a certificate: `orrerybt1.<id>.<secret>`. The
/// id names the AccessToken resource, which holds a hash of the secret. `Debug` leaves it out.
#[derive(Clone, PartialEq, Eq)]
pub struct BearerToken {
    id: String,
    secret: Zeroizing<[u8; SECRET_BYTES]>,
}

impl BearerToken {
    /// A token with a fresh secret.
    pub fn generate(id: impl Into<String>) -> Self {
        Self { id: id.into(), secret: Zeroizing::new(rand::random()) }
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn hash(&self) -> SecretHash {
        SecretHash::of(self.secret.as_slice())
    }

    /// All of it. A secret.
    pub fn to_text(&self) -> Zeroizing<String> {
        let secret = Zeroizing::new(BASE64.encode(self.secret.as_slice()));
        Zeroizing::new(format!("{BEARER_PREFIX}.{}.{}", self.id, &*secret))
    }

    /// Reads one; `None` for a text of another make.
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let (prefix, id, secret, rest) =
            (parts.next()?, parts.next()?, parts.next()?, parts.next());
        if prefix != BEARER_PREFIX || rest.is_some() || !is_id(id) {
            return None;
        }
        Some(Self { id: id.to_owned(), secret: secret_of(secret)? })
    }
}

impl fmt::Debug for BearerToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BearerToken").field("id", &self.id).finish_non_exhaustive()
    }
}

fn is_id(id: &str) -> bool {
    (1..=ID_MAX).contains(&id.len())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

fn secret_of(text: &str) -> Option<Zeroizing<[u8; SECRET_BYTES]>> {
    let decoded = Zeroizing::new(BASE64.decode(text).ok()?);
    let mut secret = Zeroizing::new([0; SECRET_BYTES]);
    if decoded.len() != SECRET_BYTES {
        return None;
    }
    secret.copy_from_slice(&decoded);
    Some(secret)
}

/// A join token as its bearer has it. `Debug` leaves the secret out, and only [`JoinToken::to_text`]
/// shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct JoinToken {
    id: String,
    secret: Zeroizing<[u8; SECRET_BYTES]>,
    authority: Fingerprint,
}

impl JoinToken {
    /// A token with a fresh secret.
    pub fn generate(id: impl Into<String>, authority: Fingerprint) -> Self {
        Self { id: id.into(), secret: Zeroizing::new(rand::random()), authority }
    }

    /// The name of its resource.
    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn secret(&self) -> &[u8] {
        self.secret.as_slice()
    }

    /// What the resource holds of the secret.
    pub fn hash(&self) -> SecretHash {
        SecretHash::of(self.secret())
    }

    /// Of the certificate of the authority that the server is known by.
    pub fn authority(&self) -> Fingerprint {
        self.authority
    }

    /// All of it. A secret.
    pub fn to_text(&self) -> Zeroizing<String> {
        let secret = Zeroizing::new(BASE64.encode(self.secret.as_slice()));
        Zeroizing::new(format!("{PREFIX}.{}.{}.{}", self.id, &*secret, self.authority))
    }
}

impl FromStr for JoinToken {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let mut parts = text.trim().split('.');
        if parts.next() != Some(PREFIX) {
            return Err(TokenError::NotAToken);
        }
        let (Some(id), Some(secret), Some(authority), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(TokenError::NotWhole);
        };
        let secret = secret_of(secret).ok_or(TokenError::NotWhole)?;
        let authority = Fingerprint::parse(authority).ok_or(TokenError::NotWhole)?;
        if !is_id(id) {
            return Err(TokenError::NotWhole);
        }
        Ok(Self { id: id.to_owned(), secret, authority })
    }
}

impl fmt::Debug for JoinToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JoinToken").field("id", &self.id).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn mk_token() -> JoinToken {
        JoinToken::generate("edge-7f3a", Fingerprint::of(b"an authority"))
    }

    #[test]
    fn what_is_written_is_read() {
        let token = mk_token();
        let read: JoinToken = format!(" {}\n", &*token.to_text()).parse().expect("whole");
        assert_eq!(read, token);
        assert_eq!(SecretHash::parse(&token.hash().to_string()), Some(read.hash()));
        assert_ne!(mk_token().hash(), token.hash());
    }

    #[test]
    fn bearer_tokens_are_read_back_and_others_are_not_ours() {
        let token = BearerToken::generate("ci");
        assert_eq!(BearerToken::parse(&token.to_text()), Some(token.clone()));
        let text = token.to_text();
        for other in ["", "a.b.c", &text[..text.len() - 1], &mk_token().to_text()] {
            assert_eq!(BearerToken::parse(other), None, "{other}");
        }
        assert!(!format!("{token:?}").contains(text.rsplit('.').next().expect("a secret")));
    }

    #[test]
    fn debug_shows_no_secret() {
        let token = mk_token();
        let text = token.to_text();
        let secret = text.split('.').nth(2).expect("four parts");
        assert!(!format!("{token:?}").contains(secret));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "abc", "orrery2.a.b.c", "Bearer x"] {
            assert_eq!(text.parse::<JoinToken>(), Err(TokenError::NotAToken), "{text}");
        }
        for text in ["orrery1", "orrery1.a", "orrery1.a.b.c", "orrery1.a.b.c.d", "orrery1..."] {
            assert_eq!(text.parse::<JoinToken>(), Err(TokenError::NotWhole), "{text}");
        }
    }

    proptest! {
        /// A cut or changed token is never taken for another one.
        #[test]
        fn a_truncated_token_is_not_whole(keep in any::<prop::sample::Index>()) {
            let text = mk_token().to_text();
            let cut = &text[..keep.index(text.len())];
            prop_assert!(cut.parse::<JoinToken>().is_err());
        }
    }
}
