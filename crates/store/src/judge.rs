//! Pure decisions about a commit: is it well formed, and do its expectations hold.

use std::{collections::HashSet, sync::Arc};

use crate::{
    error::Error,
    model::{
        COMMIT_BYTES_MAX, Expect, Head, KEY_BYTES_MAX, OPERATIONS_MAX, Op, SEGMENTS_MAX,
        VALUE_BYTES_MAX, segment,
    },
};

/// Refuses what no engine may store, before any of them is asked.
pub(crate) fn validate(ops: &[Op]) -> Result<(), Error> {
    if OPERATIONS_MAX < ops.len() {
        return Err(Error::TooManyOperations { count: ops.len(), limit: OPERATIONS_MAX });
    }
    // Most commits write one key, which is neither written twice nor too much.
    if let [op] = ops {
        validate_key(op.key())?;
        return validate_op(op);
    }
    let mut written = HashSet::new();
    for op in ops {
        validate_key(op.key())?;
        validate_op(op)?;
        if op.writes() && !written.insert(op.key().as_ref()) {
            return Err(Error::invalid(format!("{} is written twice in one commit", op.key())));
        }
    }
    let bytes: usize = ops.iter().map(Op::bytes).sum();
    if COMMIT_BYTES_MAX < bytes {
        let reason = format!("the commit has {bytes} bytes, the limit is {COMMIT_BYTES_MAX}");
        return Err(Error::invalid(reason));
    }
    let segments: HashSet<&str> = written.into_iter().map(segment).collect();
    if SEGMENTS_MAX < segments.len() {
        let found = segments.len();
        let reason = format!("the commit has {found} first segments, the limit is {SEGMENTS_MAX}");
        return Err(Error::invalid(reason));
    }
    Ok(())
}

pub(crate) fn validate_key(key: &str) -> Result<(), Error> {
    if key.is_empty() {
        return Err(Error::invalid("the key is empty"));
    }
    if KEY_BYTES_MAX < key.len() {
        let bytes = key.len();
        return Err(Error::invalid(format!("the key has {bytes} bytes, not 1..={KEY_BYTES_MAX}")));
    }
    if key.contains('\0') {
        return Err(Error::invalid(format!("the key {key:?} contains NUL")));
    }
    Ok(())
}

fn validate_op(op: &Op) -> Result<(), Error> {
    match op {
        Op::Put { key, value, .. } if VALUE_BYTES_MAX < value.len() => Err(Error::TooLarge {
            key: Arc::clone(key),
            bytes: value.len(),
            limit: VALUE_BYTES_MAX,
        }),
        Op::Delete { key, expect: Expect::Absent } => {
            Err(Error::invalid(format!("cannot delete {key}, which is expected to be absent")))
        }
        Op::Put { .. } | Op::Delete { .. } | Op::Check { .. } => Ok(()),
    }
}

/// Judges every expectation against the state that `head` reads. The first that fails is the
/// answer. On success, the heads of all operations in their order.
pub(crate) fn judge(
    ops: &[Op],
    mut head: impl FnMut(&str) -> Result<Option<Head>, Error>,
) -> Result<Vec<Option<Head>>, Error> {
    ops.iter()
        .map(|op| {
            let actual = head(op.key())?;
            verdict(op, actual).map(|()| actual)
        })
        .collect()
}

fn verdict(op: &Op, actual: Option<Head>) -> Result<(), Error> {
    let expected = op.expect();
    if expected.holds(actual) {
        return Ok(());
    }
    let actual = actual.map(|head| head.modified);
    Err(Error::Conflict { key: Arc::clone(op.key()), expected, actual })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Revision;

    #[track_caller]
    fn check(expect: Expect, actual: Option<(u64, u64)>, holds: bool) {
        let actual = actual.map(|(created, modified)| Head {
            created: Revision(created),
            modified: Revision(modified),
        });
        let judged = judge(&[Op::check("k", expect)], |_| Ok(actual));
        assert_eq!(judged.is_ok(), holds, "{judged:?}");
    }

    #[test]
    fn expectations() {
        check(Expect::Absent, None, true);
        check(Expect::Absent, Some((2, 3)), false);
        check(Expect::Present, None, false);
        check(Expect::Present, Some((2, 3)), true);
        check(Expect::At(Revision(3)), Some((2, 3)), true);
        check(Expect::At(Revision(2)), Some((2, 3)), false);
        check(Expect::At(Revision(3)), None, false);
        check(Expect::CreatedAt(Revision(2)), Some((2, 3)), true);
        check(Expect::CreatedAt(Revision(3)), Some((2, 3)), false);
        check(Expect::CreatedAt(Revision(2)), None, false);
    }

    #[test]
    fn a_conflict_names_the_key_and_both_sides() {
        let head = Head { created: Revision(2), modified: Revision(9) };
        let error = judge(&[Op::update("a/b", "v", Revision(3))], |_| Ok(Some(head)));
        let text = error.expect_err("revision 9 is not 3").to_string();
        assert_eq!(text, "a/b is at revision 9, expected at revision 3");
    }
}
