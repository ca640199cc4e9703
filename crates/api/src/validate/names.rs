//! The shapes of names, labels and annotations.

/// Longest name, label value and name part of a key: a DNS label.
const LABEL_BYTES_MAX: usize = 63;
/// Longest prefix of a key: a DNS name.
const DOMAIN_BYTES_MAX: usize = 253;

/// Whether `text` is a DNS label in lower case: the shape of names of resources.
pub fn is_name(text: &str) -> bool {
    let allowed = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.len() <= LABEL_BYTES_MAX
        && has_ends(text, allowed)
        && text.bytes().all(|c| allowed(c) || c == b'-')
}

/// Whether `text` is a key of a label or annotation: a name with an optional domain before it.
pub fn is_qualified_name(text: &str) -> bool {
    match text.split_once('/') {
        None => is_key_name(text),
        Some((domain, name)) => is_domain(domain) && is_key_name(name),
    }
}

/// Whether `text` can be the value of a label.
pub fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_key_name(text)
}

fn is_key_name(text: &str) -> bool {
    let allowed = |c: u8| c.is_ascii_alphanumeric();
    text.len() <= LABEL_BYTES_MAX
        && has_ends(text, allowed)
        && text.bytes().all(|c| allowed(c) || matches!(c, b'-' | b'_' | b'.'))
}

/// Whether `text` is a DNS name in lower case: labels with dots between them.
pub(super) fn is_domain(text: &str) -> bool {
    text.len() <= DOMAIN_BYTES_MAX && text.split('.').all(is_name)
}

fn has_ends(text: &str, allowed: impl Fn(u8) -> bool) -> bool {
    let ends = (text.bytes().next(), text.bytes().next_back());
    matches!(ends, (Some(first), Some(last)) if allowed(first) && allowed(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_dns_labels() {
        let long = "a".repeat(63);
        for good in ["a", "hello-1", "0", long.as_str()] {
            assert!(is_name(good), "{good}");
        }
        let longer = "a".repeat(64);
        for bad in ["", "-a", "a-", "A", "a.b", "a_b", "ä", longer.as_str()] {
            assert!(!is_name(bad), "{bad}");
        }
    }

    #[test]
    fn keys_have_an_optional_domain() {
        for good in ["app", "App.kubernetes_io", "orrery.dev/lineage", "a/b"] {
            assert!(is_qualified_name(good), "{good}");
        }
        for bad in ["", "/a", "a/", "a/b/c", "A/b", "a b", ".a", "a..b/c"] {
            assert!(!is_qualified_name(bad), "{bad}");
        }
    }

    #[test]
    fn label_values_may_be_empty() {
        for good in ["", "v1.2_3", "A"] {
            assert!(is_label_value(good), "{good}");
        }
        for bad in ["-a", "a b", "a/b"] {
            assert!(!is_label_value(bad), "{bad}");
        }
    }
}
