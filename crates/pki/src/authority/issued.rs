//! A certificate fresh from the authority, with its key, and the files it is handed over in.

use std::fmt;
use std::fs::{self, DirBuilder, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rcgen::{Certificate, KeyPair};
use zeroize::Zeroizing;

use super::{AuthorityError, CERTIFICATE_FILE, IssueRequest};
use crate::error::Error;
use crate::files::TlsFiles;
use crate::identity::Identity;
use crate::material::TlsMaterial;

/// The permission of every PEM file we write: one of the two that we also accept.
const FILE_MODE: u32 = 0o600;
const DIR_MODE: u32 = 0o700;

/// A certificate, its private key and the authority's certificate. `Debug` leaves the key out.
pub struct Issued {
    /// `<role>-<name>`, which is safe as a file name: both are made of SPIFFE's characters.
    file_stem: String,
    certificate_pem: String,
    key_pem: Zeroizing<String>,
    root_pem: String,
    identity: Identity,
}

impl Issued {
    pub(super) fn new(
        request: &IssueRequest,
        certificate: &Certificate,
        key: &KeyPair,
        chain_pem: &str,
        root_pem: &str,
    ) -> Result<Self, AuthorityError> {
        let identity = Identity::from_der(certificate.der())
            .map_err(|error| AuthorityError::Unreadable(error.to_string()))?;
        Ok(Self {
            file_stem: format!("{}-{}", request.role, request.name),
            certificate_pem: certificate.pem() + chain_pem,
            key_pem: Zeroizing::new(key.serialize_pem()),
            root_pem: root_pem.to_owned(),
            identity,
        })
    }

    pub fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// The private key, a secret.
    pub fn key_pem(&self) -> &str {
        &self.key_pem
    }

    pub fn root_pem(&self) -> &str {
        &self.root_pem
    }

    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Straight to TLS, without files.
    pub fn material(&self) -> Result<TlsMaterial, Error> {
        let (root, certificate, key) = (&self.root_pem, &self.certificate_pem, &self.key_pem);
        TlsMaterial::from_pem(root.as_bytes(), certificate.as_bytes(), key.as_bytes())
    }

    /// Writes `<role>-<name>.pem`, `<role>-<name>-key.pem` and `ca.pem` with permission 600. An older
    /// certificate of the same name is replaced; another authority's `ca.pem` is not.
    pub fn write_to(&self, dir: &Path) -> Result<TlsFiles, AuthorityError> {
        let root = dir.join(CERTIFICATE_FILE);
        let certificate = dir.join(format!("{}.pem", self.file_stem));
        let key = dir.join(format!("{}-key.pem", self.file_stem));
        self.write_root(&root)?;
        write_private(&key, self.key_pem.as_bytes())?;
        write_private(&certificate, self.certificate_pem.as_bytes())?;
        Ok(TlsFiles { root: Some(root), certificate: Some(certificate), key: Some(key) })
    }

    fn write_root(&self, root: &Path) -> Result<(), AuthorityError> {
        match fs::read(root) {
            Ok(existing) if existing == self.root_pem.as_bytes() => Ok(()),
            Ok(_) => Err(AuthorityError::Exists(root.to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                write_private(root, self.root_pem.as_bytes())
            }
            Err(source) => Err(AuthorityError::Write { file: root.to_owned(), source }),
        }
    }
}

impl fmt::Debug for Issued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Issued").field("identity", &self.identity).finish_non_exhaustive()
    }
}

/// Whole or not at all: written beside the target, made durable, then renamed over it. The file is
/// never readable by others, not even for a moment.
pub(crate) fn write_private(file: &Path, bytes: &[u8]) -> Result<(), AuthorityError> {
    let failed = |source| AuthorityError::Write { file: file.to_owned(), source };
    let draft = draft_of(file);
    let written = create_and_write(&draft, bytes).and_then(|()| fs::rename(&draft, file));
    written.map_err(|source| {
        // The error that matters is the first one; a draft that was never made cannot be removed.
        let _ = fs::remove_file(&draft);
        failed(source)
    })
}

/// A name of its own for every writer, so that two at once do not write into one draft.
fn draft_of(file: &Path) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{:016x}.new", rand::random::<u64>()));
    file.with_file_name(name)
}

fn create_and_write(file: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(dir) = file.parent() {
        DirBuilder::new().recursive(true).mode(DIR_MODE).create(dir)?;
    }
    let mut open = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(file)?;
    // The umask may have taken away more than we want.
    open.set_permissions(Permissions::from_mode(FILE_MODE))?;
    open.write_all(bytes)?;
    open.sync_all()
}
