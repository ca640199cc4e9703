//! The three files of a TLS configuration, as a person names them.

use std::path::{Path, PathBuf};

use crate::authority::{AuthorityError, write_private};
use crate::error::{Error, TlsPart};
use crate::material::TlsMaterial;
use crate::pem::Pem;

/// Where the root certificate, our certificate and our private key are. All of them turn TLS on, none
/// of them turns it off, and anything between is an error: half a configuration is a mistake, and
/// guessing which half was meant would be a security decision.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// Certificates of the authorities we trust; more than one while an authority is rotated.
    pub root: Option<PathBuf>,
    /// Our certificate, followed by its intermediates if there are any.
    pub certificate: Option<PathBuf>,
    /// The private key of our certificate.
    pub key: Option<PathBuf>,
}

impl TlsFiles {
    /// Reads and checks the files; `None` when none is given.
    pub fn load(&self) -> Result<Option<TlsMaterial>, Error> {
        let Some((root, certificate, key)) = self.complete()? else {
            return Ok(None);
        };
        let material =
            TlsMaterial::new(&Pem::read(root)?, &Pem::read(certificate)?, &Pem::read(key)?)?;
        Ok(Some(material))
    }

    /// The files of one identity in a folder of its own.
    pub fn in_folder(folder: &Path) -> Self {
        Self {
            root: Some(folder.join("ca.pem")),
            certificate: Some(folder.join("certificate.pem")),
            key: Some(folder.join("key.pem")),
        }
    }

    /// Whether none of the files is given.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Writes what is given to the files that are named, private and each whole or not at all. The
    /// certificate comes last: where it is, the rest is too.
    pub fn write(
        &self,
        root: &str,
        certificate: &str,
        key: Option<&str>,
    ) -> Result<(), AuthorityError> {
        if let (Some(file), Some(key)) = (&self.key, key) {
            write_private(file, key.as_bytes())?;
        }
        self.write_root(root)?;
        if let Some(file) = &self.certificate {
            write_private(file, certificate.as_bytes())?;
        }
        Ok(())
    }

    /// Writes only the certificates that are trusted.
    pub fn write_root(&self, root: &str) -> Result<(), AuthorityError> {
        match &self.root {
            Some(file) => write_private(file, root.as_bytes()),
            None => Ok(()),
        }
    }

    /// Decides between all three, none, and an error, without touching the file system.
    fn complete(&self) -> Result<Option<(&Path, &Path, &Path)>, Error> {
        match (&self.root, &self.certificate, &self.key) {
            (Some(root), Some(certificate), Some(key)) => Ok(Some((root, certificate, key))),
            (None, None, None) => Ok(None),
            (root, certificate, key) => {
                let given = [
                    (TlsPart::Root, root),
                    (TlsPart::Certificate, certificate),
                    (TlsPart::Key, key),
                ];
                let missing = given.into_iter().filter(|(_, path)| path.is_none());
                Err(Error::Incomplete { missing: missing.map(|(part, _)| part).collect() })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Letters stand for the files that are given: r(oot), c(ertificate), k(ey).
    #[track_caller]
    fn check(given: &str, expect: Result<bool, &[TlsPart]>) {
        let path = |letter: char| given.contains(letter).then(|| PathBuf::from(letter.to_string()));
        let files = TlsFiles { root: path('r'), certificate: path('c'), key: path('k') };
        match (files.complete(), expect) {
            (Ok(found), Ok(on)) => assert_eq!(found.is_some(), on),
            (Err(Error::Incomplete { missing }), Err(expect)) => assert_eq!(missing, expect),
            (found, expect) => panic!("{given}: got {found:?}, expected {expect:?}"),
        }
    }

    /// proves: AGT-12
    #[test]
    fn all_three_or_none() {
        use TlsPart::{Certificate, Key, Root};
        check("", Ok(false));
        check("rck", Ok(true));
        check("r", Err(&[Certificate, Key]));
        check("c", Err(&[Root, Key]));
        check("k", Err(&[Root, Certificate]));
        check("rc", Err(&[Key]));
        check("rk", Err(&[Certificate]));
        check("ck", Err(&[Root]));
    }

    #[test]
    fn an_incomplete_set_names_what_is_missing() {
        let files = TlsFiles { key: Some("k".into()), ..TlsFiles::default() };
        let message = files.load().expect_err("two files are missing").to_string();
        assert!(message.ends_with("missing: the root certificate, the certificate"), "{message}");
    }
}
