//! Users and groups, as the files of a system name them.
//!
//! Only the files are read. Users of a directory service can be given by number.
use std::{collections::BTreeSet, fs, io};

/// The numbers of a user and a group.
pub(crate) type Ids = (u32, u32);

/// Not a user and not a group: the kernel's word for "leave it as it is".
const NOBODY: u32 = u32::MAX;

/// Whom a program runs as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct User {
    pub uid: u32,
    pub gid: u32,
    /// The groups of the user, with the first one.
    pub groups: BTreeSet<u32>,
    /// Its name and home, where the system knows them.
    pub name: Option<String>,
    pub home: Option<String>,
}

impl User {
    pub(crate) fn ids(&self) -> Ids {
        (self.uid, self.gid)
    }
}

/// Finds `user`, `user:group`, or numbers in their place, on this machine.
pub(crate) fn find(text: &str) -> io::Result<User> {
    let passwd = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let group = fs::read_to_string("/etc/group").unwrap_or_default();
    let problem = |unknown: Unknown| io::Error::other(format!("this node has no {unknown}"));
    resolve(text, &passwd, &group).map_err(problem)
}

/// What the files do not name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unknown {
    #[error("user {0:?}")]
    User(String),
    #[error("group {0:?}")]
    Group(String),
}

/// The same in the files of any system.
pub(crate) fn resolve(text: &str, passwd: &str, groups: &str) -> Result<User, Unknown> {
    let (user, group) = match text.split_once(':') {
        Some((user, group)) => (user, Some(group)),
        None => (text, None),
    };
    let fields = entry(passwd, 0, user).or_else(|| entry(passwd, 2, user));
    let uid = match &fields {
        Some(fields) => number(fields, 2),
        None => user.parse().ok(),
    };
    let uid = uid.filter(|uid| *uid != NOBODY).ok_or_else(|| Unknown::User(user.to_owned()))?;
    let gid = match group {
        Some(name) => group_id(groups, name).ok_or_else(|| Unknown::Group(name.to_owned()))?,
        // A number without an entry has no group of its own but the one of the same number.
        None => fields.as_ref().and_then(|fields| number(fields, 3)).unwrap_or(uid),
    };
    let text = |at: usize| fields.as_ref()?.get(at).map(|text| (*text).to_owned());
    let (name, home) = (text(0), text(5).filter(|home| home.starts_with('/')));
    let mut all = name.as_ref().map(|name| memberships(groups, name)).unwrap_or_default();
    all.insert(gid);
    Ok(User { uid, gid, groups: all, name, home })
}

fn group_id(groups: &str, name: &str) -> Option<u32> {
    let found = match entry(groups, 0, name) {
        Some(fields) => number(&fields, 2),
        None => name.parse().ok(),
    };
    found.filter(|gid| *gid != NOBODY)
}

/// The groups that list this user.
fn memberships(groups: &str, name: &str) -> BTreeSet<u32> {
    let lines = groups.lines().map(|line| line.split(':').collect::<Vec<_>>());
    let lists = |fields: &Vec<&str>| {
        fields.get(3).is_some_and(|members| members.split(',').any(|member| member.trim() == name))
    };
    lines.filter(lists).filter_map(|fields| number(&fields, 2)).collect()
}

/// The fields of the first line that has this text at that place.
fn entry<'a>(file: &'a str, at: usize, text: &str) -> Option<Vec<&'a str>> {
    let mut lines = file.lines().map(|line| line.split(':').collect::<Vec<_>>());
    lines.find(|fields| fields.get(at) == Some(&text) && !text.is_empty())
}

fn number(fields: &[&str], at: usize) -> Option<u32> {
    fields.get(at)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0::/root:/bin/sh\nweb:x:33:44::/srv/web:/bin/false\n";
    const GROUPS: &str = "root:x:0:\nstaff:x:50:web\nlog:x:60:root,web\nother:x:70:webster\n";

    #[track_caller]
    fn check(text: &str, expect: Result<Ids, &str>) {
        let found = resolve(text, PASSWD, GROUPS).map(|user| user.ids());
        assert_eq!(found.map_err(|unknown| unknown.to_string()), expect.map_err(str::to_owned));
    }

    #[test]
    fn names_and_numbers_are_found() {
        check("root", Ok((0, 0)));
        check("web", Ok((33, 44)));
        check("33", Ok((33, 44)));
        check("web:staff", Ok((33, 50)));
        check("web:7", Ok((33, 7)));
        check("1000", Ok((1000, 1000)));
        check("1000:50", Ok((1000, 50)));
        check("nobody-here", Err("user \"nobody-here\""));
        check("web:none", Err("group \"none\""));
        check(":staff", Err("user \"\""));
        check("4294967295", Err("user \"4294967295\""));
        check("web:4294967295", Err("group \"4294967295\""));
    }

    #[test]
    fn a_user_has_the_groups_that_list_it() {
        let groups = |text: &str| resolve(text, PASSWD, GROUPS).unwrap().groups;
        assert_eq!(groups("web"), [44, 50, 60].into());
        assert_eq!(groups("33"), [44, 50, 60].into(), "a number stands for the name");
        assert_eq!(groups("web:70"), [50, 60, 70].into());
        assert_eq!(groups("1000"), [1000].into());
        let web = resolve("33", PASSWD, GROUPS).unwrap();
        assert_eq!((web.name.as_deref(), web.home.as_deref()), (Some("web"), Some("/srv/web")));
    }
}
