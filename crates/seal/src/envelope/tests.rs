use proptest::prelude::*;

use super::*;

#[test]
fn what_is_sealed_opens_with_its_context_only() {
    let ring = Keyring::generate();
    let sealed = ring.seal(b"secrets/a", b"word");
    assert!(is_sealed(&sealed));
    assert_eq!(*ring.open(b"secrets/a", &sealed).expect("ours"), b"word");
    assert_eq!(ring.open(b"secrets/b", &sealed), Err(OpenError::Damaged));
    assert_eq!(ring.open(b"", &sealed), Err(OpenError::Damaged));
    assert_ne!(sealed, ring.seal(b"secrets/a", b"word"), "twice the same is not seen");
}

#[test]
fn an_older_key_still_opens_and_the_new_one_seals() {
    let old = Keyring::generate();
    let sealed = old.seal(b"x", b"word");
    let new = old.rotated();
    assert!(old.is_current(&sealed) && !new.is_current(&sealed));
    assert_eq!(*new.open(b"x", &sealed).expect("still there"), b"word");
    let again = new.seal(b"x", b"word");
    assert!(new.is_current(&again));
    assert_eq!(old.open(b"x", &again), Err(OpenError::UnknownKey(new.current())));
    let only_new = new.without_older();
    assert_eq!(only_new.open(b"x", &sealed), Err(OpenError::UnknownKey(old.current())));
}

#[test]
fn plain_bytes_are_told_apart() {
    let ring = Keyring::generate();
    assert_eq!(ring.open(b"x", b"\x0a\x03abc"), Err(OpenError::NotSealed));
    assert_eq!(ring.open(b"x", b""), Err(OpenError::NotSealed));
    assert_eq!(ring.open(b"x", &MAGIC), Err(OpenError::Damaged));
    assert!(!ring.is_current(b"plain"));
}

proptest! {
    #[test]
    fn any_bytes_come_back(plain in proptest::collection::vec(any::<u8>(), 0..300)) {
        let ring = Keyring::generate();
        let sealed = ring.seal(b"place", &plain);
        prop_assert_eq!(&*ring.open(b"place", &sealed).expect("ours"), &plain);
        if 4 <= plain.len() {
            prop_assert!(!sealed.windows(plain.len()).any(|window| window == plain));
        }
    }

    #[test]
    fn a_changed_envelope_stays_closed(
        at in any::<prop::sample::Index>(),
        change in 1..=255_u8,
        keep in any::<prop::sample::Index>(),
        cut in any::<bool>(),
    ) {
        let ring = Keyring::generate();
        let mut sealed = ring.seal(b"place", b"some bytes");
        if cut {
            sealed.truncate(keep.index(sealed.len()));
        } else {
            let at = at.index(sealed.len());
            sealed[at] ^= change;
        }
        prop_assert!(ring.open(b"place", &sealed).is_err());
    }
}
