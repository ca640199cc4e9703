//! What can go wrong with a repository.

/// Bytes of what git says that are passed on.
const SAID_BYTES_MAX: usize = 400;

#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("cannot run git: {0}; it must be installed where the server runs")]
    Start(std::io::Error),
    #[error("cannot keep a copy of the repository: {0}")]
    Keep(std::io::Error),
    #[error("git {what} took longer than {seconds} s")]
    TimedOut { what: String, seconds: u64 },
    #[error("git {what} failed: {said}")]
    Failed { what: String, said: String },
    #[error("the repository is too large: at most {bytes_max} bytes at once")]
    TooLarge { bytes_max: u64 },
    #[error("the secret {name:?} {problem}")]
    Secret { name: String, problem: &'static str },
    /// It is not who it should be, or nobody said who it is.
    #[error("{0}")]
    HostRefused(String),
    #[error("{0}")]
    KeyRefused(String),
    #[error("{0}")]
    Refused(String),
    #[error("git answered what cannot be understood: {0}")]
    Strange(String),
}

impl GitError {
    /// With git's own words, the last of which say the most.
    pub fn failed(what: &str, stderr: &str) -> Self {
        let lines = stderr.lines().map(str::trim).filter(|line| !line.is_empty());
        let plain: Vec<&str> = lines.filter(|line| !line.starts_with("hint:")).collect();
        let mut said = plain.join("; ");
        if SAID_BYTES_MAX < said.len() {
            let cut = said.len() - SAID_BYTES_MAX;
            let cut = (cut..said.len()).find(|at| said.is_char_boundary(*at)).unwrap_or(cut);
            said = format!("...{}", &said[cut..]);
        }
        Self::Failed { what: what.to_owned(), said }
    }

    /// One word for it.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Start(_) => "GitMissing",
            Self::Keep(_) => "NoRoom",
            Self::TimedOut { .. } => "TimedOut",
            Self::Failed { what, .. } if what == "push" => "PushFailed",
            Self::Failed { what, .. } if what == "commit-tree" => "CommitFailed",
            Self::Failed { .. } => "FetchFailed",
            Self::HostRefused(_) => "HostRefused",
            Self::KeyRefused(_) => "KeyRefused",
            Self::TooLarge { .. } => "TooLarge",
            Self::Secret { .. } => "SecretUnfit",
            Self::Refused(_) => "Refused",
            Self::Strange(_) => "NotUnderstood",
        }
    }
}
