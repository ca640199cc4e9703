//! The id of a storage controller.
use std::fmt;

/// A label's worth of characters: ids become part of a DNS name in certificates.
const LENGTH_MAX: usize = 63;

/// A controller's id, known to be well formed. Cheap to clone: it is looked up on every proxied call.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ControllerId(std::sync::Arc<str>);

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "invalid controller id {0:?}: use 1 to 63 letters, digits, '-', '_' or '.', with a letter or \
     digit at both ends and no two dots in a row"
)]
pub struct InvalidId(String);

impl ControllerId {
    pub fn parse(text: &str) -> Result<Self, InvalidId> {
        if well_formed(text) { Ok(Self(text.into())) } else { Err(InvalidId(text.to_owned())) }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

fn well_formed(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= LENGTH_MAX
        && ends(bytes.first())
        && ends(bytes.last())
        && bytes.iter().all(|byte| inner(*byte))
        && !text.contains("..")
}

impl fmt::Display for ControllerId {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::ControllerId;

    #[track_caller]
    fn check(text: &str, valid: bool) {
        assert_eq!(ControllerId::parse(text).is_ok(), valid, "{text:?}");
    }

    /// proves: VOL-02
    #[test]
    fn ids_are_host_name_like() {
        check("host-1", true);
        check("a", true);
        check("rack_2.host-1.example", true);
        check(&"a".repeat(63), true);
        check(&"a".repeat(64), false);
        check("", false);
        check("-a", false);
        check("a.", false);
        check("a..b", false);
        check("a/b", false);
        check("a b", false);
        check("hôte", false);
        check("a\n", false);
    }
}
