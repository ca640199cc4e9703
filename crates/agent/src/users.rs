//! Users and groups of this machine, as its files name them.
//!
//! Only the files are read. Users of a directory service can be given by number.
use std::{fs, io};

/// The numbers of a user and a group.
pub(crate) type Ids = (u32, u32);

/// Finds `user`, `user:group`, or numbers in their place.
pub(crate) fn find(text: &str) -> io::Result<Ids> {
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let group = fs::read_to_string("/etc/group").unwrap_or_default();
    resolve(text, &passwd, &group).map_err(io::Error::other)
}

fn resolve(text: &str, passwd: &str, groups: &str) -> Result<Ids, String> {
    let (user, group) = match text.split_once(':') {
        Some((user, group)) => (user, Some(group)),
        None => (text, None),
    };
    let entry = entry(passwd, user);
    let uid = match (&entry, user.parse()) {
        (Some(fields), _) => number(fields, 2),
        (None, Ok(uid)) => Some(uid),
        (None, Err(_)) => None,
    };
    let uid = uid.ok_or_else(|| format!("this node has no user {user:?}"))?;
    let gid = match group {
        Some(name) => {
            group_id(groups, name).ok_or_else(|| format!("this node has no group {name:?}"))?
        }
        // A number without an entry has no group of its own but the one of the same number.
        None => entry.as_ref().and_then(|fields| number(fields, 3)).unwrap_or(uid),
    };
    Ok((uid, gid))
}

fn group_id(groups: &str, name: &str) -> Option<u32> {
    match entry(groups, name) {
        Some(fields) => number(&fields, 2),
        None => name.parse().ok(),
    }
}

/// The fields of the line that begins with this name.
fn entry<'a>(file: &'a str, name: &str) -> Option<Vec<&'a str>> {
    let lines = file.lines().map(|line| line.split(':').collect::<Vec<_>>());
    lines.into_iter().find(|fields| fields.first() == Some(&name) && !name.is_empty())
}

fn number(fields: &[&str], at: usize) -> Option<u32> {
    fields.get(at)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: Result<Ids, &str>) {
        let passwd = "root:x:0:0::/root:/bin/sh\nweb:x:33:44::/:/bin/false\n";
        let groups = "root:x:0:\nstaff:x:50:web\n";
        assert_eq!(resolve(text, passwd, groups), expect.map_err(str::to_owned));
    }

    #[test]
    fn names_and_numbers_are_found() {
        check("root", Ok((0, 0)));
        check("web", Ok((33, 44)));
        check("web:staff", Ok((33, 50)));
        check("web:7", Ok((33, 7)));
        check("1000", Ok((1000, 1000)));
        check("1000:50", Ok((1000, 50)));
        check("nobody-here", Err("this node has no user \"nobody-here\""));
        check("web:none", Err("this node has no group \"none\""));
        check(":staff", Err("this node has no user \"\""));
    }
}
