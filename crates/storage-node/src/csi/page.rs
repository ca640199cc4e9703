//! Lists in pages. A token is the id after which the next page starts, so it stays good when volumes
//! come and go between two pages, the one it names included.
use crate::error::{Error, Result};

/// One page and the token of the next one, which is empty at the end.
pub fn page<T>(
    sorted: Vec<T>,
    id: impl Fn(&T) -> &str,
    max_entries: i32,
    after: Option<&str>,
) -> Result<(Vec<T>, String)> {
    let limit = match usize::try_from(max_entries) {
        Ok(0) => usize::MAX,
        Ok(limit) => limit,
        Err(_) => return Err(Error::Invalid("max_entries is negative".to_owned())),
    };
    let rest = sorted.into_iter().filter(|item| after.is_none_or(|after| id(item) > after));
    let mut items: Vec<T> = rest.take(limit.saturating_add(1)).collect();
    let more = items.len() > limit;
    items.truncate(limit);
    let token = items.last().filter(|_| more).map(|item| id(item).to_owned());
    Ok((items, token.unwrap_or_default()))
}

/// Checks a token that came from a caller: the interface wants `Aborted` for one that is not ours.
pub fn token(text: &str, valid: impl Fn(&str) -> bool) -> Result<Option<&str>> {
    match text {
        "" => Ok(None),
        text if valid(text) => Ok(Some(text)),
        text => Err(Error::Pending(format!("{text:?} is no token of this list: start again"))),
    }
}

#[cfg(test)]
mod tests {
    use super::{page, token};

    #[track_caller]
    fn check(all: &str, max: i32, after: Option<&str>, expect: (&str, &str)) {
        let items = all.split_whitespace().map(str::to_owned).collect();
        let (items, next) = page(items, |item: &String| item, max, after).unwrap();
        assert_eq!((items.join(" ").as_str(), next.as_str()), expect);
    }

    #[test]
    fn pages_follow_each_other_without_gaps() {
        check("a b c", 0, None, ("a b c", ""));
        check("a b c", 2, None, ("a b", "b"));
        check("a b c", 2, Some("b"), ("c", ""));
        check("a c d", 2, Some("b"), ("c d", ""));
        check("a b c", 3, None, ("a b c", ""));
        check("", 1, None, ("", ""));
        check("a b", 1, Some("z"), ("", ""));
        assert!(page(vec![1], |_| "x", -1, None).is_err());
        assert!(token("x", |_| false).is_err());
    }
}
