//! Contexts: where a server is and who speaks, under a name.
use crate::{Endpoint, Error};
use orrery_pki::TlsFiles;
use serde::{Deserialize, Serialize};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// The server when nobody names one.
pub const DEFAULT_SERVER: &str = "http://127.0.0.1:7443";
/// The project when nobody names one.
pub const DEFAULT_PROJECT: &str = "default";

/// The contexts file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Contexts {
    /// Name of the context that is used when none is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    #[serde(default)]
    pub contexts: Vec<Context>,
}

/// One server, as one person reaches it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Context {
    pub name: String,
    /// `http://HOST:PORT` or `https://HOST:PORT`.
    pub server: String,
    /// Project of what is asked for without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<String>,
    /// PEM files: the root that the server's certificate comes from, our certificate, its key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<PathBuf>,
    /// File of the access token that is shown instead of a certificate.
    #[serde(default, rename = "tokenFile", skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
}

#[derive(Debug, thiserror::Error)]
pub enum ContextError {
    #[error("cannot read the contexts file {}: {cause}", .path.display())]
    Read { path: PathBuf, cause: std::io::Error },
    #[error("the contexts file {} is not valid: {cause}", .path.display())]
    Malformed { path: PathBuf, cause: String },
    #[error("cannot write the contexts file {}: {cause}", .path.display())]
    Write { path: PathBuf, cause: std::io::Error },
    #[error("there is no context named {name:?}; there are: {}", or_none(.known))]
    Unknown { name: String, known: Vec<String> },
}

/// A server that cannot even be tried.
#[derive(Debug, thiserror::Error)]
pub enum EndpointError {
    #[error(transparent)]
    Server(#[from] Error),
    #[error(transparent)]
    Files(#[from] orrery_pki::Error),
    #[error("read the access token: {0}")]
    Token(orrery_pki::Error),
}

/// Where the contexts file is when nobody says so, from the variables of the environment; `None` without a home.
pub fn usual_file(variable: impl Fn(&str) -> Option<std::ffi::OsString>) -> Option<PathBuf> {
    let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let base = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")));
    base.map(|base| base.join("orrery/config.yaml"))
}

impl Context {
    /// The server of the context, and what is shown to it: certificates, a token, or nothing.
    pub fn endpoint(&self) -> Result<Endpoint, EndpointError> {
        let Some(file) = &self.token_file else {
            return Ok(Endpoint::new(&self.server, self.tls_files().load()?)?);
        };
        let token = orrery_pki::read_pem_file(file).map_err(EndpointError::Token)?;
        let root = self.root.as_deref().map(orrery_pki::rooted_client_config).transpose()?;
        Ok(Endpoint::with_token(&self.server, root, token.trim())?)
    }

    pub fn tls_files(&self) -> TlsFiles {
        TlsFiles {
            root: self.root.clone(),
            certificate: self.certificate.clone(),
            key: self.key.clone(),
        }
    }
}

impl Contexts {
    /// Reads the file; one that is not there holds nothing.
    pub fn load(path: &Path) -> Result<Self, ContextError> {
        let text = match std::fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            Err(cause) => return Err(ContextError::Read { path: path.to_owned(), cause }),
        };
        serde_saphyr::from_str(&text).map_err(|error| ContextError::Malformed {
            path: path.to_owned(),
            cause: error.to_string(),
        })
    }

    /// Writes the file whole or not at all, readable by its owner only.
    pub fn save(&self, path: &Path) -> Result<(), ContextError> {
        let failed = |cause| ContextError::Write { path: path.to_owned(), cause };
        let text = serde_saphyr::to_string(self)
            .map_err(|error| failed(std::io::Error::other(error.to_string())))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(failed)?;
        let staged = path.with_extension(format!("tmp-{}", std::process::id()));
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&staged).map_err(failed)?;
        file.write_all(text.as_bytes()).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        std::fs::rename(&staged, path).map_err(failed)
    }

    /// The context of this name, or the current one.
    pub fn find(&self, name: Option<&str>) -> Result<Option<&Context>, ContextError> {
        let Some(wanted) = name.or(self.current.as_deref()) else { return Ok(None) };
        let found = self.contexts.iter().find(|context| context.name == wanted);
        found.map(Some).ok_or_else(|| ContextError::Unknown {
            name: wanted.to_owned(),
            known: self.contexts.iter().map(|context| context.name.clone()).collect(),
        })
    }

    /// Puts a context in, in place of one of the same name.
    pub fn put(&mut self, context: Context) {
        match self.contexts.iter_mut().find(|known| known.name == context.name) {
            Some(known) => *known = context,
            None => self.contexts.push(context),
        }
    }
}

fn or_none(names: &[String]) -> String {
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn mk_contexts() -> Contexts {
        let context = Context {
            name: "local".into(),
            server: "http://127.0.0.1:7443".into(),
            project: Some("default".into()),
            ..Context::default()
        };
        Contexts { current: Some("local".into()), contexts: vec![context] }
    }

    #[test]
    fn what_is_saved_is_loaded_and_private() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("deep/config.yaml");
        assert_eq!(Contexts::load(&path).expect("absent is empty"), Contexts::default());
        mk_contexts().save(&path).expect("saved");
        assert_eq!(Contexts::load(&path).expect("loaded"), mk_contexts());
        let mode = std::fs::metadata(&path).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn an_unknown_context_is_named_with_those_that_are_known() {
        let error = mk_contexts().find(Some("prod")).expect_err("not there");
        assert_eq!(error.to_string(), "there is no context named \"prod\"; there are: local");
        assert_eq!(Contexts::default().find(None).expect("nothing asked"), None);
    }

    #[test]
    fn a_broken_file_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("config.yaml");
        std::fs::write(&path, "contexts: [{nme: x}]").expect("written");
        let error = Contexts::load(&path).expect_err("not valid").to_string();
        assert!(error.contains("config.yaml") && error.contains("nme"), "{error}");
    }
}
