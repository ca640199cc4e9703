//! Keys of ssh: from a secret into a file that ssh takes, or words for why it would not.
use super::error::GitError;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::collections::BTreeMap;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use tempfile::TempDir;

/// The value of a secret that holds a private key.
const KEY: &str = "ssh-key";

const NONE: &str = "has no \"ssh-key\"";
const PUBLIC: &str = "has a public key as \"ssh-key\": put the private one there";
const LOCKED: &str = "has an \"ssh-key\" with a passphrase, which nobody is there to type: make one \
    without for this sync";
const BROKEN: &str =
    "has an \"ssh-key\" that is none: put there the whole file that ssh-keygen made";

/// Who signs reads the public half too, which only the form of OpenSSH has within it.
const OLD: &str = "has an \"ssh-key\" in an older form, which cannot sign: ssh-keygen -p -N '' -f FILE \
    writes it anew";

/// What a key in the form of OpenSSH begins with.
const OPENSSH: &[u8] = b"openssh-key-v1\0";

/// A folder with files that only this user reads, for as long as this lives.
pub struct Held(TempDir);

impl Held {
    /// In the folder where the copies of repositories are.
    pub fn new(folder: &Path) -> io::Result<Self> {
        TempDir::with_prefix_in(".key-", folder).map(Self)
    }

    /// Where the file is, seen from a copy beside the folder. The names of the folders above may have
    /// anything in them, and ssh reads spaces, quotes, and signs of percent and dollar in its own way.
    pub fn write(&self, name: &str, text: &str) -> io::Result<String> {
        let mut options = std::fs::OpenOptions::new();
        let path = self.0.path().join(name);
        let mut file = options.write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(text.as_bytes())?;
        let own = self.0.path().file_name().unwrap_or_default().to_string_lossy();
        Ok(format!("../{own}/{name}"))
    }
}

/// A key that commits are signed with, for as long as this lives.
pub struct Signer {
    settings: Vec<String>,
    _held: Held,
}

impl Signer {
    /// With the key of a secret. `folder` is where the copies are that git is run in.
    pub fn new(
        name: &str,
        values: &BTreeMap<String, Vec<u8>>,
        folder: &Path,
    ) -> Result<Self, GitError> {
        let unfit = |problem| GitError::Secret { name: name.to_owned(), problem };
        let key = private(values).map_err(unfit)?;
        if !key.contains("BEGIN OPENSSH PRIVATE KEY") {
            return Err(unfit(OLD));
        }
        let held = Held::new(folder).map_err(GitError::Keep)?;
        let key = held.write("key", &key).map_err(GitError::Keep)?;
        let settings = vec!["gpg.format=ssh".to_owned(), format!("user.signingKey={key}")];
        Ok(Self { settings, _held: held })
    }

    pub fn settings(&self) -> &[String] {
        &self.settings
    }
}

/// The private key of a secret, as ssh reads it.
pub fn private(values: &BTreeMap<String, Vec<u8>>) -> Result<String, &'static str> {
    let value = values.get(KEY).ok_or(NONE)?;
    let text = lines(std::str::from_utf8(value).map_err(|_| BROKEN)?);
    if ["ssh-", "ecdsa-", "sk-"].iter().any(|kind| text.starts_with(kind))
        || text.contains(" PUBLIC ")
    {
        return Err(PUBLIC);
    }
    let inside = text.strip_prefix("-----BEGIN ").and_then(|rest| rest.split_once("-----\n"));
    let (kind, rest) = inside.ok_or(BROKEN)?;
    let body = rest.strip_suffix(&format!("\n-----END {kind}-----\n")).ok_or(BROKEN)?;
    match kind {
        "OPENSSH PRIVATE KEY" if is_locked(body).ok_or(BROKEN)? => Err(LOCKED),
        "ENCRYPTED PRIVATE KEY" => Err(LOCKED),
        _ if body.contains("Proc-Type: 4,ENCRYPTED") => Err(LOCKED),
        _ if kind.ends_with("PRIVATE KEY") => Ok(text),
        _ => Err(BROKEN),
    }
}

/// A text as files hold it: forms and other systems change what ends a line, indent, or drop the last end.
pub fn lines(text: &str) -> String {
    let lines: Vec<&str> = text.trim().lines().map(str::trim).collect();
    lines.join("\n") + "\n"
}

/// Whether a key in the form of OpenSSH is locked with a passphrase; nothing if it is none.
fn is_locked(body: &str) -> Option<bool> {
    let bytes = STANDARD.decode(body.replace('\n', "")).ok()?;
    let (len, rest) = bytes.strip_prefix(OPENSSH)?.split_first_chunk()?;
    let cipher = rest.get(..usize::try_from(u32::from_be_bytes(*len)).ok()?)?;
    Some(cipher != b"none")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str) -> Result<String, &'static str> {
        private(&BTreeMap::from([(KEY.to_owned(), text.as_bytes().to_vec())]))
    }

    fn openssh(cipher: &str) -> String {
        let len = u32::try_from(cipher.len()).unwrap_or_default().to_be_bytes();
        let body = STANDARD.encode([OPENSSH, &len, cipher.as_bytes(), b"and so on"].concat());
        format!("-----BEGIN OPENSSH PRIVATE KEY-----\n{body}\n-----END OPENSSH PRIVATE KEY-----\n")
    }

    #[test]
    fn keys_are_taken_however_their_lines_end() {
        let key = openssh("none");
        assert_eq!(check(&key).as_deref(), Ok(key.as_str()));
        assert_eq!(check(key.trim_end()).as_deref(), Ok(key.as_str()));
        assert_eq!(check(&key.replace('\n', "\r\n  ")).as_deref(), Ok(key.as_str()));
        let other = "-----BEGIN EC PRIVATE KEY-----\nAAAA\n-----END EC PRIVATE KEY-----\n";
        assert_eq!(check(other).as_deref(), Ok(other));
    }

    #[test]
    fn what_is_no_key_says_what_it_is() {
        assert_eq!(private(&BTreeMap::new()), Err(NONE));
        assert_eq!(check("ssh-ed25519 AAAA ada"), Err(PUBLIC));
        assert_eq!(
            check("-----BEGIN PUBLIC KEY-----\nAA\n-----END PUBLIC KEY-----\n"),
            Err(PUBLIC)
        );
        assert_eq!(check(&openssh("aes256-ctr")), Err(LOCKED));
        let old = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,AA\n\nAAAA";
        for (kind, body) in [("ENCRYPTED PRIVATE KEY", "AAAA"), ("RSA PRIVATE KEY", old)] {
            let text = format!("-----BEGIN {kind}-----\n{body}\n-----END {kind}-----\n");
            assert_eq!(check(&text), Err(LOCKED), "{kind}");
        }
        let (key, certificate) = (openssh("none"), "-----BEGIN X-----\nAAAA\n-----END X-----");
        for text in ["", "key", &key[..60], &key.replace("b3Bl", "!!!!"), certificate] {
            assert_eq!(check(text), Err(BROKEN), "{text}");
        }
    }
}
