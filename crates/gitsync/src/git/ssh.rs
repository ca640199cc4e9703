//! What ssh says when it does not let git through, in words that tell what to do.
use super::address::Address;
use super::error::GitError;

/// Why git failed, where it was ssh that stopped it.
pub fn problem(said: &str, address: &Address, secret: &str) -> Option<GitError> {
    let host = &address.host;
    // What the other side says is passed on with a word before it, and is not about the way there.
    let says =
        |words: &str| said.lines().any(|line| !line.starts_with("remote:") && line.contains(words));
    if says("HOST IDENTIFICATION HAS CHANGED") || says("REVOKED HOST KEY") {
        return Some(GitError::HostRefused(format!(
            "the host {host} has another key than those in \"known-hosts\" of the secret {secret:?}: ask \
             who runs it whether the key was changed; if so, put there what ssh-keyscan prints, else \
             somebody is in between"
        )));
    }
    if says("Host key verification failed") {
        let asked = match host.rsplit_once(':') {
            Some((name, port)) if port.parse::<u16>().is_ok() => {
                format!("-p {port} {}", name.trim_matches(['[', ']']))
            }
            _ => host.trim_matches(['[', ']']).to_owned(),
        };
        return Some(GitError::HostRefused(format!(
            "\"known-hosts\" of the secret {secret:?} has no key of the host {host}: compare what \
             ssh-keyscan {asked} prints with what who runs it says, and put it there"
        )));
    }
    says("Permission denied (").then(|| {
        GitError::KeyRefused(format!(
            "the host {host} does not let in the \"ssh-key\" of the secret {secret:?}: give its public \
             half to the host, for this user and this repository"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, said: &str) -> Option<String> {
        let address = Address::parse(url).expect("an address");
        problem(said, &address, "key").map(|error| error.to_string())
    }

    #[test]
    fn hosts_are_asked_for_their_keys_as_they_are_reached() {
        let said = "No ED25519 host key is known for h.\nHost key verification failed.\n";
        for (url, asked) in [
            ("ssh://git@h/a", "what ssh-keyscan h prints"),
            ("ssh://git@h:2222/a", "what ssh-keyscan -p 2222 h prints"),
            ("ssh://git@[::1]/a", "what ssh-keyscan ::1 prints"),
            ("ssh://git@[::1]:22/a", "what ssh-keyscan -p 22 ::1 prints"),
        ] {
            assert!(check(url, said).is_some_and(|text| text.contains(asked)), "{url}");
        }
    }

    #[test]
    fn what_the_other_side_says_is_not_about_the_way_there() {
        assert_eq!(check("ssh://h/a", "remote: Permission denied (policy)\n"), None);
        assert_eq!(check("ssh://h/a", "fatal: the remote end hung up\n"), None);
        assert!(check("ssh://h/a", "git@h: Permission denied (publickey).\n").is_some());
    }
}
