//! The token with which a list goes on.
use crate::error::Error;
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use orrery_store::Revision;

/// Where a list stopped: opaque to clients, and true at one revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// `None` goes on with what is there now: for a list whose revision is forgotten.
    pub revision: Option<Revision>,
    /// The place of the last object that was handed out.
    pub after: String,
    /// How many come after it, where that is known.
    pub remaining: Option<u64>,
}

impl Cursor {
    pub fn encode(&self) -> String {
        let remaining = self.remaining.map(|count| count.to_string()).unwrap_or_default();
        let revision = self.revision.map(|revision| revision.to_string()).unwrap_or_default();
        BASE64.encode(format!("3:{revision}:{remaining}:{}", self.after))
    }

    pub fn decode(token: &str) -> Result<Self, Error> {
        Self::parse(token).ok_or_else(|| {
            Error::BadRequest(
                "the continue token is not one of this server's; start the list again".into(),
            )
        })
    }

    fn parse(token: &str) -> Option<Self> {
        let text = String::from_utf8(BASE64.decode(token).ok()?).ok()?;
        let (revision, rest) = text.strip_prefix("3:")?.split_once(':')?;
        let (remaining, after) = rest.split_once(':')?;
        let (revision, remaining) = (number(revision)?, number(remaining)?);
        Some(Self { revision, after: after.to_owned(), remaining })
    }
}

/// A number, or nothing; `None` for something else.
fn number<T: std::str::FromStr>(text: &str) -> Option<Option<T>> {
    match text {
        "" => Some(None),
        number => number.parse().ok().map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(
            revision: Option<u64>, remaining: Option<u64>, after in ".*",
        ) {
            let cursor = Cursor { revision: revision.map(Revision), after, remaining };
            prop_assert_eq!(Cursor::decode(&cursor.encode()).expect("our own token"), cursor);
        }

        #[test]
        fn anything_else_is_a_bad_request(token in ".*") {
            prop_assert!(matches!(Cursor::decode(&token), Ok(_) | Err(Error::BadRequest(_))));
        }
    }
}
