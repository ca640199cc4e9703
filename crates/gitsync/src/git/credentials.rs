//! What opens a repository: from a secret into what git takes, and gone afterwards.
use super::address::{Address, Transport};
use super::error::GitError;
use super::keys::{self, Held};
use std::collections::BTreeMap;
use std::path::Path;

/// Git asks a helper, which tells what stands in its environment; nothing secret is on a command line.
const HELPER: &str = "credential.helper=!printf 'username=%s\\npassword=%s\\n' \"$ORRERY_GIT_USERNAME\" \"$ORRERY_GIT_PASSWORD\"; :";

/// A repository that can be spoken with, for as long as this lives.
#[derive(Default)]
pub struct Opened {
    settings: Vec<String>,
    environment: Vec<(&'static str, String)>,
    /// The secret that it was opened with.
    secret: String,
    /// Holds the files of keys.
    _held: Option<Held>,
}

impl Opened {
    /// With the values of a secret, where there is one. `folder` is where the copies are that git is run
    /// in.
    pub fn new(
        address: &Address,
        secret: Option<(&str, &BTreeMap<String, Vec<u8>>)>,
        folder: &Path,
    ) -> Result<Self, GitError> {
        let Some((name, values)) = secret else {
            return match address.transport {
                Transport::Ssh => {
                    let problem =
                        "is missing: ssh needs a secret with \"ssh-key\" and \"known-hosts\"";
                    Err(GitError::Refused(format!("spec.secret {problem}")))
                }
                Transport::Https | Transport::Http | Transport::File => Ok(Self::default()),
            };
        };
        let unfit = |problem| GitError::Secret { name: name.to_owned(), problem };
        match address.transport {
            Transport::File => Ok(Self::default()),
            Transport::Http if address.is_open() => {
                Err(unfit("is not sent over http, where others could read it: use https"))
            }
            Transport::Https | Transport::Http => Self::by_password(values).map_err(unfit),
            Transport::Ssh => Self::by_key(name, values, folder),
        }
    }

    fn by_password(values: &BTreeMap<String, Vec<u8>>) -> Result<Self, &'static str> {
        let text = |key: &str| -> Result<Option<String>, &'static str> {
            let Some(value) = values.get(key) else { return Ok(None) };
            let text = std::str::from_utf8(value).map_err(|_| "has a value that is no text")?;
            let text = text.trim_end_matches('\n');
            if text.chars().any(|c| c.is_control()) {
                return Err("has a value of more than one line");
            }
            Ok(Some(text.to_owned()))
        };
        let password = text("password")?.ok_or("has no \"password\"")?;
        // Those who give out tokens take any name with them.
        let username = text("username")?.unwrap_or_else(|| "git".to_owned());
        Ok(Self {
            settings: vec![HELPER.to_owned()],
            environment: vec![("ORRERY_GIT_USERNAME", username), ("ORRERY_GIT_PASSWORD", password)],
            ..Self::default()
        })
    }

    fn by_key(
        name: &str,
        values: &BTreeMap<String, Vec<u8>>,
        folder: &Path,
    ) -> Result<Self, GitError> {
        let unfit = |problem| GitError::Secret { name: name.to_owned(), problem };
        let key = keys::private(values).map_err(unfit)?;
        let hosts = values.get("known-hosts").ok_or_else(|| unfit("has no \"known-hosts\""))?;
        let hosts = keys::lines(&String::from_utf8_lossy(hosts));
        let held = Held::new(folder).map_err(GitError::Keep)?;
        let key = held.write("key", &key).map_err(GitError::Keep)?;
        let hosts = held.write("hosts", &hosts).map_err(GitError::Keep)?;
        let command = format!(
            "ssh -F none -o BatchMode=yes -o IdentitiesOnly=yes -o IdentityAgent=none \
             -o StrictHostKeyChecking=yes -o GlobalKnownHostsFile=none -o UpdateHostKeys=no \
             -o ConnectTimeout=20 -o UserKnownHostsFile={hosts} -i {key}"
        );
        let environment = vec![("GIT_SSH_COMMAND", command), ("GIT_SSH_VARIANT", "ssh".to_owned())];
        let secret = name.to_owned();
        Ok(Self { settings: Vec::new(), environment, secret, _held: Some(held) })
    }

    pub fn settings(&self) -> &[String] {
        &self.settings
    }

    /// The name of the secret that it was opened with.
    pub fn secret(&self) -> &str {
        &self.secret
    }

    pub fn environment(&self) -> &[(&'static str, String)] {
        &self.environment
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(url: &str, values: Option<&[(&str, &str)]>) -> Result<Opened, String> {
        let folder = tempfile::tempdir().expect("a folder");
        let values = values.map(|values| {
            values.iter().map(|(k, v)| ((*k).to_owned(), v.as_bytes().to_vec())).collect()
        });
        let secret = values.as_ref().map(|values| ("s", values));
        let address = Address::parse(url).expect("an address");
        Opened::new(&address, secret, folder.path()).map_err(|error| error.to_string())
    }

    #[test]
    fn secrets_fit_the_way_they_are_for() {
        let password = &[("username", "u"), ("password", "p\n")][..];
        assert!(check("https://h/a", None).is_ok());
        assert!(check("https://h/a", Some(password)).is_ok());
        assert!(check("http://127.0.0.1:1/a", Some(password)).is_ok());
        let refused =
            |url: &str, values: Option<&[(&str, &str)]>| check(url, values).err().unwrap();
        assert!(refused("http://h/a", Some(password)).contains("use https"));
        assert!(refused("https://h/a", Some(&[])).contains("no \"password\""));
        assert!(refused("https://h/a", Some(&[("password", "a\nhost=x")])).contains("one line"));
        assert!(refused("ssh://git@h/a", None).contains("spec.secret"));
        let pem = "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----";
        assert!(refused("ssh://git@h/a", Some(&[("ssh-key", pem)])).contains("known-hosts"));
        assert!(refused("ssh://git@h/a", Some(&[("ssh-key", "k")])).contains("that is none"));
        let key = &[("ssh-key", pem), ("known-hosts", "h")][..];
        let opened = check("ssh://git@h/a", Some(key)).expect("it fits");
        let (_, command) = &opened.environment()[0];
        assert!(command.contains("StrictHostKeyChecking=yes"), "{command}");
    }
}
