//! Names of resources for ids of controllers.
use crate::ControllerId;
use sha2::{Digest, Sha256};

/// The longest name of a resource.
const NAME_LENGTH_MAX: usize = 63;

/// The name of the resource for an id: the id itself where that can be a name, and otherwise
/// something like it that no other id has.
pub fn object_name(id: &ControllerId) -> String {
    let text = id.as_str();
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if text.bytes().all(fits) {
        return text.to_owned();
    }
    derived(text)
}

/// Something like the text, with a fingerprint of it at its end.
pub fn derived(text: &str) -> String {
    let digest: String =
        Sha256::digest(text.as_bytes()).iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    let plain = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let clipped: String = text.chars().map(plain).take(NAME_LENGTH_MAX - 9).collect();
    format!("{}-{digest}", clipped.trim_matches('-'))
}

#[cfg(test)]
mod tests {
    use super::object_name;
    use crate::ControllerId;

    #[test]
    fn ids_become_names() {
        let name = |id: &str| object_name(&ControllerId::parse(id).unwrap());
        assert_eq!(name("host-1"), "host-1");
        let odd = ["Host-1", "host.1", "host_1", "a.".repeat(31).trim_end_matches('.')].map(name);
        for (index, found) in odd.iter().enumerate() {
            let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(found.len() <= 63 && found.chars().all(fits), "{found}");
            assert!(!odd[..index].contains(found), "{odd:?}");
        }
    }
}
