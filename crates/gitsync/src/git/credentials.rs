//! What opens a repository: from a secret into what git takes, and gone afterwards.
use super::address::{Address, Transport};
use super::error::GitError;
use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Git asks a helper, which tells what stands in its environment; nothing secret is on a command line.
const HELPER: &str = "credential.helper=!printf 'username=%s\\npassword=%s\\n' \"$ORRERY_GIT_USERNAME\" \"$ORRERY_GIT_PASSWORD\"; :";

/// A repository that can be spoken with, for as long as this lives.
#[derive(Default)]
pub struct Opened {
    settings: Vec<String>,
    environment: Vec<(&'static str, String)>,
    /// Holds the files of keys.
    _folder: Option<tempfile::TempDir>,
}

impl Opened {
    /// With the values of a secret, where there is one.
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
            Transport::Ssh => Self::by_key(values, folder, unfit),
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
            _folder: None,
        })
    }

    fn by_key(
        values: &BTreeMap<String, Vec<u8>>,
        folder: &Path,
        unfit: impl Fn(&'static str) -> GitError,
    ) -> Result<Self, GitError> {
        let key = values.get("ssh-key").ok_or_else(|| unfit("has no \"ssh-key\""))?;
        let hosts = values.get("known-hosts").ok_or_else(|| unfit("has no \"known-hosts\""))?;
        let held = tempfile::TempDir::with_prefix_in(".key-", folder).map_err(GitError::Keep)?;
        let write = |name: &str, bytes: &[u8]| -> std::io::Result<String> {
            let path = held.path().join(name);
            let mut options = std::fs::OpenOptions::new();
            let mut file = options.write(true).create_new(true).mode(0o600).open(&path)?;
            file.write_all(bytes)?;
            Ok(quoted(&path.to_string_lossy()))
        };
        let key = write("key", key).map_err(GitError::Keep)?;
        let hosts = write("hosts", hosts).map_err(GitError::Keep)?;
        let command = format!(
            "ssh -F none -o BatchMode=yes -o IdentitiesOnly=yes -o IdentityAgent=none \
             -o StrictHostKeyChecking=yes -o GlobalKnownHostsFile=none -o ConnectTimeout=20 \
             -o UserKnownHostsFile={hosts} -i {key}"
        );
        let environment = vec![("GIT_SSH_COMMAND", command), ("GIT_SSH_VARIANT", "ssh".to_owned())];
        Ok(Self { settings: Vec::new(), environment, _folder: Some(held) })
    }

    pub fn settings(&self) -> &[String] {
        &self.settings
    }

    pub fn environment(&self) -> &[(&'static str, String)] {
        &self.environment
    }
}

/// For the shell, whatever is in it.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
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
        assert!(refused("ssh://git@h/a", Some(&[("ssh-key", "k")])).contains("known-hosts"));
        let key = &[("ssh-key", "k"), ("known-hosts", "h")][..];
        let opened = check("ssh://git@h/a", Some(key)).expect("it fits");
        let (_, command) = &opened.environment()[0];
        assert!(command.contains("StrictHostKeyChecking=yes"), "{command}");
    }
}
