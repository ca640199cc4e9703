//! What an upstream is shown, from files that may be replaced while the server runs.
use super::{UpstreamError, UpstreamOptions};
use orrery_client::Endpoint;
use orrery_pki::LiveTls;
use std::path::PathBuf;

/// How to reach an upstream.
pub struct Proof {
    server: String,
    shown: Shown,
    /// As `--kind-from` names it, for messages.
    given: String,
}

enum Shown {
    Nothing,
    /// Each connection is opened with what the files hold then.
    Certificate(LiveTls),
    Token {
        file: PathBuf,
        root: Option<PathBuf>,
    },
}

/// An upstream with what is shown to it; the token tells whether the file holds another one now.
pub struct Way {
    pub endpoint: Endpoint,
    token: Option<String>,
}

impl Proof {
    /// Reads the files once, so that what is wrong with them is told at the start.
    pub fn new(
        options: &UpstreamOptions,
        server: &str,
        given: String,
    ) -> Result<(Self, Way), UpstreamError> {
        let encrypted = server.starts_with("https:");
        let shown = match &options.token_file {
            Some(file) => {
                // The root is of no use to a plain connection, which another kind may have.
                let root = options.tls.root.clone().filter(|_| encrypted);
                Shown::Token { file: file.clone(), root }
            }
            None if !encrypted => Shown::Nothing,
            None => match LiveTls::from_files(&options.tls)? {
                Some(live) => Shown::Certificate(live),
                None => return Err(UpstreamError::Unproven { given }),
            },
        };
        let proof = Self { server: server.to_owned(), shown, given };
        let way = proof.read()?;
        Ok((proof, way))
    }

    /// The proof as the files have it, if that is another one than before.
    pub fn read_again(&self, before: &Way) -> Option<Way> {
        let now = self.read();
        let now = now.inspect_err(|error| tracing::warn!(%error, "cannot read the proof again"));
        now.ok().filter(|now| now.token != before.token)
    }

    fn read(&self) -> Result<Way, UpstreamError> {
        let made = match &self.shown {
            Shown::Nothing => Endpoint::live(&self.server, None).map(|it| (it, None)),
            Shown::Certificate(live) => {
                Endpoint::live(&self.server, Some(live.clone())).map(|it| (it, None))
            }
            Shown::Token { file, root } => {
                let token = orrery_pki::read_pem_file(file)?.trim().to_owned();
                let root = root.as_deref().map(orrery_pki::rooted_client_config).transpose()?;
                let made = Endpoint::with_token(&self.server, root, &token);
                made.map(|it| (it, Some(token)))
            }
        };
        let given = self.given.clone();
        let made = made.map_err(|cause| UpstreamError::Endpoint { given, cause });
        made.map(|(endpoint, token)| Way { endpoint, token })
    }
}
