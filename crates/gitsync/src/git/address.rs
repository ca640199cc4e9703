//! Where a repository is, and what is not taken for one.
use std::net::IpAddr;

/// How a repository is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Https,
    Http,
    Ssh,
    File,
}

impl Transport {
    /// As git calls it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http => "http",
            Self::Ssh => "ssh",
            Self::File => "file",
        }
    }
}

/// The address of a repository, which git can only read as what it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    pub url: String,
    pub transport: Transport,
    /// With its port, if it is given; empty for a file.
    pub host: String,
}

impl Address {
    pub fn parse(url: &str) -> Result<Self, &'static str> {
        if url.chars().any(|c| c.is_whitespace() || c.is_control() || c == '\\') {
            return Err("must not have spaces, backslashes or control characters");
        }
        let Some((scheme, rest)) = url.split_once("://") else {
            return Err("must begin with https://, http://, ssh:// or file://");
        };
        let transport = match scheme {
            "https" => Transport::Https,
            "http" => Transport::Http,
            "ssh" => Transport::Ssh,
            "file" => Transport::File,
            _ => return Err("must begin with https://, http://, ssh:// or file://"),
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if path.is_empty() {
            return Err("must name a path");
        }
        if transport == Transport::File {
            if !authority.is_empty() {
                return Err("must have three slashes: file:///path");
            }
            return Ok(Self { url: url.to_owned(), transport, host: String::new() });
        }
        let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
        if user.contains(':') || (transport != Transport::Ssh && !user.is_empty()) {
            return Err("must not hold a name or a password: put them into a secret");
        }
        if host.is_empty() || host.starts_with(['-', ':']) || user.starts_with('-') {
            return Err("must name a host");
        }
        Ok(Self { url: url.to_owned(), transport, host: host.to_owned() })
    }

    /// Whether what is sent there can be read by others on the way.
    pub fn is_open(&self) -> bool {
        self.transport == Transport::Http && !self.is_loopback()
    }

    fn is_loopback(&self) -> bool {
        let bare = self.host.trim_start_matches('[');
        let bare = match bare.split_once(']') {
            Some((address, _)) => address,
            None => bare.split(':').next().unwrap_or_default(),
        };
        bare == "localhost" || bare.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }
}

/// What is wrong with the name of a branch, if anything is.
pub fn branch_problem(name: &str) -> Option<&'static str> {
    let odd = |c: char| !(c.is_ascii_alphanumeric() || "._/-+=@".contains(c));
    if name.is_empty() || name.chars().any(odd) {
        return Some("may have letters, digits and ._/-+=@ only");
    }
    let part =
        |part: &str| part.is_empty() || part.starts_with(['.', '-']) || part.ends_with(".lock");
    if name.contains("..") || name.contains("@{") || name == "@" || name.ends_with('.') {
        return Some("is no name that git takes for a branch");
    }
    name.split('/').any(part).then_some("is no name that git takes for a branch")
}

/// A folder of a repository in one spelling, "" for all of it.
pub fn folder(path: &str) -> Result<String, &'static str> {
    if path.chars().any(|c| c.is_control() || c == '\\') {
        return Err("must not have backslashes or control characters");
    }
    if path.starts_with('/') {
        return Err("must be relative to the root of the repository");
    }
    let parts: Vec<&str> =
        path.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
    if parts.iter().any(|part| *part == ".." || *part == ".git" || part.starts_with(':')) {
        return Err("must be a folder below the root of the repository");
    }
    Ok(parts.join("/"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_that_mean_one_thing_are_taken() {
        let good = [
            ("https://git.example/a/b.git", false),
            ("http://git.example:8080/a", true),
            ("http://127.0.0.1:8080/a", false),
            ("http://[::1]:8080/a", false),
            ("http://localhost/a", false),
            ("ssh://git@git.example/a", false),
            ("file:///srv/a.git", false),
        ];
        for (url, open) in good {
            let address = Address::parse(url).unwrap_or_else(|why| panic!("{url}: {why}"));
            assert_eq!(address.is_open(), open, "{url}");
        }
        let bad = [
            "",
            "git.example/a",
            "git@git.example:a",
            "--upload-pack=x",
            "ext::sh -c x",
            "ext://x/y",
            "https://",
            "https://host",
            "https:///a",
            "https://u:p@host/a",
            "https://token@host/a",
            "ssh://-oProxyCommand=x/a",
            "ssh://-x@host/a",
            "file://host/a",
            "https://host/a b",
            "https://host/a\n",
            "https://host\\@evil/a",
        ];
        for url in bad {
            assert!(Address::parse(url).is_err(), "{url}");
        }
    }

    #[test]
    fn branches_and_folders_stay_what_they_are() {
        for name in ["main", "release/1.2", "a-b_c"] {
            assert_eq!(branch_problem(name), None, "{name}");
        }
        for name in
            ["", "-f", "a..b", "a b", "a:b", "/a", "a/", "a/.b", "x.lock", "a~1", "@", "a/-b"]
        {
            assert!(branch_problem(name).is_some(), "{name}");
        }
        for (path, expect) in [(".", ""), ("./a//b/", "a/b"), ("a", "a")] {
            assert_eq!(folder(path).as_deref(), Ok(expect));
        }
        for path in ["/etc", "..", "a/../b", ".git", "a\\b", ":(glob)x"] {
            assert!(folder(path).is_err(), "{path}");
        }
    }
}
