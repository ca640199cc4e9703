//! Files that tell an Envoy where its certificate is, which it therefore reads again when it is replaced.
use super::{CERTIFICATE_NAME, ROOTS_NAME, TlsPaths};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const SECRET: &str = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret";

/// Where they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowedFiles {
    /// Of the proxy's own certificate and its key.
    pub certificate: PathBuf,
    /// Of those that it trusts.
    pub roots: PathBuf,
}

impl FollowedFiles {
    pub fn in_folder(folder: &Path) -> Self {
        Self {
            certificate: folder.join("envoy-certificate.json"),
            roots: folder.join("envoy-roots.json"),
        }
    }

    pub fn exist(&self) -> bool {
        self.certificate.exists() && self.roots.exists()
    }

    /// What has to be in them, for these PEM files.
    pub fn content(&self, tls: &TlsPaths) -> [(&Path, Value); 2] {
        let secret = |name: &str, kind: &str, content: Value| json!({ "resources": [{ "@type": SECRET, "name": name, kind: content }] });
        let roots = json!({ "trusted_ca": { "filename": tls.root } });
        [
            (&self.certificate, secret(CERTIFICATE_NAME, "tls_certificate", tls.certificate())),
            (&self.roots, secret(ROOTS_NAME, "validation_context", roots)),
        ]
    }

    pub(super) fn certificate_source(&self) -> Value {
        source(CERTIFICATE_NAME, &self.certificate)
    }

    pub(super) fn roots_source(&self) -> Value {
        source(ROOTS_NAME, &self.roots)
    }
}

fn source(name: &str, path: &Path) -> Value {
    let config = json!({ "resource_api_version": "V3", "path_config_source": { "path": path } });
    json!({ "name": name, "sds_config": config })
}
