//! Short texts with a grammar of their own.
use super::objects::scheme;
use orrery_api::{FieldSelector, LabelSelector, Object};
use orrery_hub::Cursor;
use orrery_hub::artifacts::ArtifactPath;
use orrery_pki::{Identity, SpiffeId};

fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

pub fn label_selector(bytes: &[u8]) {
    let Some(Ok(selector)) = text(bytes).map(LabelSelector::parse) else { return };
    let labels = |key: &str| key.len().is_multiple_of(2).then_some("b");
    let _ = selector.matches_labels(labels);
    assert!(
        !selector.is_empty() || selector.matches_labels(|_| None),
        "nothing selects everything"
    );
}

pub fn field_selector(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    for kind in scheme().kinds() {
        if let Ok(selector) = FieldSelector::parse(text, kind) {
            let matches = selector.matches(&Object::new(kind));
            assert!(!selector.is_empty() || matches, "nothing selects everything");
        }
    }
}

pub fn cursor(bytes: &[u8]) {
    let Some(Ok(cursor)) = text(bytes).map(Cursor::decode) else { return };
    assert_eq!(Cursor::decode(&cursor.encode()).expect("our own token"), cursor);
}

/// A path that is taken never leads out of the folder it is put below.
pub fn artifact_path(bytes: &[u8]) {
    let Some(Ok(path)) = text(bytes).map(str::parse::<ArtifactPath>) else { return };
    let parts = std::path::Path::new(path.as_str()).components();
    for part in parts {
        assert!(matches!(part, std::path::Component::Normal(_)), "{path}");
    }
}

pub fn spiffe(bytes: &[u8]) {
    let Some(Ok(id)) = text(bytes).map(str::parse::<SpiffeId>) else { return };
    let again: SpiffeId = id.to_string().parse().expect("what we wrote ourselves");
    assert_eq!(again, id);
}

pub fn certificate(bytes: &[u8]) {
    let _ = Identity::from_der(bytes);
}
