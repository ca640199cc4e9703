//! How a command reaches its server.
use clap::Args;
use orrery_pki::TlsFiles;
use std::path::PathBuf;

/// How to reach a server.
#[derive(Clone, Debug, Default, Args)]
pub struct Connection {
    /// Server to talk to, instead of the context's: http://HOST:PORT or https://HOST:PORT
    #[arg(long, env = "ORRERY_SERVER", value_name = "URL")]
    pub server: Option<String>,
    #[command(flatten)]
    pub tls: Tls,
    /// File with an access token to show instead of a certificate
    #[arg(
        long,
        env = "ORRERY_TOKEN_FILE",
        value_name = "FILE",
        conflicts_with_all = ["certificate", "key"]
    )]
    pub token_file: Option<PathBuf>,
}

/// PEM files: all three, or none.
#[derive(Clone, Debug, Default, Args)]
pub struct Tls {
    /// PEM file of the root certificate that peers are checked against
    #[arg(long, value_name = "FILE", env = "ORRERY_ROOT")]
    pub root: Option<PathBuf>,
    /// PEM file of the own certificate
    #[arg(long, value_name = "FILE", env = "ORRERY_CERTIFICATE")]
    pub certificate: Option<PathBuf>,
    /// PEM file of the own key
    #[arg(long, value_name = "FILE", env = "ORRERY_KEY")]
    pub key: Option<PathBuf>,
}

impl Tls {
    pub fn files(&self) -> TlsFiles {
        TlsFiles {
            root: self.root.clone(),
            certificate: self.certificate.clone(),
            key: self.key.clone(),
        }
    }
}
