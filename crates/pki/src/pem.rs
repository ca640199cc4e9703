//! PEM text, from a file or from memory, together with the name that errors give it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use zeroize::Zeroizing;

use crate::error::Error;

/// A chain of a few certificates takes some 10 kB and a bundle of every public authority 300 kB. More
/// than this is another file given by mistake, which we do not want to hold in memory.
const PEM_FILE_BYTES_MAX: u64 = 1 << 20;

/// The permissions a PEM file may have: readable by its owner alone. Certificates are held to the
/// same rule as keys, because whoever may replace the root may be trusted by us.
const MODES_ACCEPTED: [u32; 2] = [0o400, 0o600];

/// Of group and others.
const WRITABLE_BY_OTHERS: u32 = 0o022;

/// PEM text from a file, held to the same rules as every PEM file.
pub fn read_pem_file(file: &Path) -> Result<Zeroizing<String>, Error> {
    let pem = Pem::read(file)?;
    let text = std::str::from_utf8(&pem.bytes);
    let text = text.map_err(|_| Error::Pem { file: pem.name(), reason: "it is no text" })?;
    Ok(Zeroizing::new(text.to_owned()))
}

/// The bytes are wiped on drop, as they may be a private key.
pub(crate) struct Pem {
    name: PathBuf,
    bytes: Zeroizing<Vec<u8>>,
}

impl Pem {
    pub(crate) fn read(path: &Path) -> Result<Self, Error> {
        Self::read_if(
            path,
            |mode| MODES_ACCEPTED.contains(&mode),
            |file, mode| Error::Permission { file, mode },
        )
    }

    /// Certificates that are no secret of ours. Others may read them; whoever else could change them
    /// could be trusted by us.
    pub(crate) fn read_public(path: &Path) -> Result<Self, Error> {
        Self::read_if(
            path,
            |mode| mode & WRITABLE_BY_OTHERS == 0,
            |file, mode| Error::Writable { file, mode },
        )
    }

    fn read_if(
        path: &Path,
        accepted: impl FnOnce(u32) -> bool,
        refusal: impl FnOnce(PathBuf, u32) -> Error,
    ) -> Result<Self, Error> {
        let mode = mode_of(path)?;
        if !accepted(mode) {
            return Err(refusal(path.to_owned(), mode));
        }
        let bytes = read_limited(path)?;
        Ok(Self { name: path.to_owned(), bytes })
    }

    /// PEM text that never was a file; `name` stands for it in errors.
    pub(crate) fn in_memory(name: &str, bytes: &[u8]) -> Self {
        Self { name: PathBuf::from(name), bytes: Zeroizing::new(bytes.to_vec()) }
    }

    pub(crate) fn name(&self) -> PathBuf {
        self.name.clone()
    }

    /// All certificates in file order, at least one. Other sections are passed over, so that a file
    /// with certificate and key together may be named twice.
    pub(crate) fn certificates(&self) -> Result<Vec<CertificateDer<'static>>, Error> {
        let found: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&self.bytes)
            .collect::<Result<_, _>>()
            .map_err(|error| Error::Pem { file: self.name(), reason: reason(&error) })?;
        if found.is_empty() {
            return Err(Error::NoCertificate { file: self.name() });
        }
        Ok(found)
    }

    /// The one private key, in PKCS#8, PKCS#1 or SEC1 form.
    pub(crate) fn private_key(&self) -> Result<PrivateKeyDer<'static>, Error> {
        if self.is_encrypted() {
            return Err(Error::EncryptedKey { file: self.name() });
        }
        let mut keys = PrivateKeyDer::pem_slice_iter(&self.bytes)
            .collect::<Result<Vec<_>, _>>()
            .map_err(|error| Error::Pem { file: self.name(), reason: reason(&error) })?;
        match (keys.pop(), keys.len()) {
            (None, _) => Err(Error::NoKey { file: self.name() }),
            (Some(key), 0) => Ok(key),
            (Some(_), others) => Err(Error::ManyKeys { file: self.name(), count: others + 1 }),
        }
    }

    /// Both forms that `openssl` writes: an `ENCRYPTED PRIVATE KEY` section, and the older header line
    /// inside of a section. Without this look the first would read as "no key" and the second as
    /// "bad base64", and neither tells a person what to do.
    fn is_encrypted(&self) -> bool {
        self.bytes.split(|byte| *byte == b'\n').any(|line| {
            line.starts_with(b"-----BEGIN ENCRYPTED PRIVATE KEY-----")
                || (line.starts_with(b"Proc-Type:")
                    && line.trim_ascii_end().ends_with(b"ENCRYPTED"))
        })
    }
}

/// Looks before opening, so that a file which even its owner may not read is answered with the
/// `chmod` to run and a fifo does not block us.
fn mode_of(path: &Path) -> Result<u32, Error> {
    let metadata = fs::metadata(path).map_err(|error| read_error(path, error))?;
    if !metadata.is_file() {
        return Err(Error::NotAFile { file: path.to_owned() });
    }
    Ok(metadata.permissions().mode() & 0o777)
}

fn read_limited(path: &Path) -> Result<Zeroizing<Vec<u8>>, Error> {
    let file = File::open(path).map_err(|error| read_error(path, error))?;
    let mut bytes = Zeroizing::new(Vec::new());
    file.take(PEM_FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| read_error(path, error))?;
    if PEM_FILE_BYTES_MAX < bytes.len() as u64 {
        return Err(Error::TooLarge { file: path.to_owned(), max: PEM_FILE_BYTES_MAX });
    }
    Ok(bytes)
}

fn read_error(path: &Path, error: io::Error) -> Error {
    let file = path.to_owned();
    if error.kind() == io::ErrorKind::NotFound {
        Error::NotFound { file }
    } else {
        Error::Read { file, source: error }
    }
}

/// The parser's own error may quote the line it stumbled over, and that line may be part of a key.
fn reason(error: &pem::Error) -> &'static str {
    match error {
        pem::Error::MissingSectionEnd { .. } => "a section has no END line",
        pem::Error::IllegalSectionStart { .. } => "a BEGIN line is malformed",
        pem::Error::Base64Decode(_) => "a section is not base64",
        pem::Error::NoItemsFound => "there is no section in it",
        pem::Error::SectionTooLarge => "a section is too large",
        pem::Error::Io(_) | _ => "it cannot be read to its end",
    }
}

/// One section of PEM text.
pub(crate) fn encode(label: &str, der: &[u8]) -> String {
    const LINE: usize = 64;
    let body = BASE64.encode(der);
    let mut text = format!("-----BEGIN {label}-----\n");
    for line in body.as_bytes().chunks(LINE) {
        text.extend(line.iter().map(|byte| char::from(*byte)));
        text.push('\n');
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}
