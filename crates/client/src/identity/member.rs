//! A machine that has joined, or joins now: the one way in which agents, drivers, storage controllers,
//! hosts and proxies come to their certificate.
//!
//! ```text
//!   kept in the folder?  good ─────────────────────────> used, and renewed before it ends
//!                        ended, broken, none ── token ──> joined, kept, used, renewed
//!                        good, but another token ───────> joined anew; if that fails, used
//! ```
use super::{JoinError, Renewal, join};
use crate::endpoint::Endpoint;
use orrery_pki::{Identity, JoinToken, LiveTls, Role, TlsFiles};
use std::path::PathBuf;
use std::time::SystemTime;

/// The port of a server, where people name only its host.
const PORT: u16 = 7443;

/// What a machine wants to be, and where it keeps the proof.
#[derive(Clone, Debug)]
pub struct Joiner {
    /// `https://HOST:PORT`.
    pub server: String,
    /// The text of a join token; not needed any more after the first time.
    pub token: Option<String>,
    pub role: Role,
    pub name: String,
    pub files: TlsFiles,
}

/// A certificate of one's own, and what keeps it good.
#[derive(Debug)]
pub struct Member {
    pub endpoint: Endpoint,
    pub live: LiveTls,
    pub renewal: Renewal,
}

/// What a folder holds.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Kept {
    Nothing,
    /// The name of the token that it was got with; empty if nobody wrote it down.
    Good {
        token: String,
    },
    Ended,
    Broken(String),
    /// It is somebody else's: the name of that.
    Another(String),
}

/// What to do about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// There is nothing, and nothing to get anything with.
    Nothing,
    Use,
    Join,
    /// What is kept is good enough if joining fails.
    JoinElseUse,
    Refuse,
}

fn step(kept: &Kept, token: Option<&str>) -> Step {
    match (kept, token) {
        (Kept::Another(_), _) => Step::Refuse,
        (Kept::Nothing, None) => Step::Nothing,
        (Kept::Ended | Kept::Broken(_), None) => Step::Refuse,
        (Kept::Nothing | Kept::Ended | Kept::Broken(_), Some(_)) => Step::Join,
        (Kept::Good { token: old }, Some(new)) if !old.is_empty() && old != new => {
            Step::JoinElseUse
        }
        (Kept::Good { .. }, _) => Step::Use,
    }
}

impl Joiner {
    /// Uses what is kept, or joins; `None` where there is neither a certificate nor a token.
    pub async fn member(&self) -> Result<Option<Member>, JoinError> {
        let token: Option<JoinToken> = self.token.as_deref().map(str::parse).transpose()?;
        let kept = self.kept();
        match (step(&kept, token.as_ref().map(JoinToken::id)), &token) {
            (Step::Nothing, _) => return Ok(None),
            (Step::Refuse, _) => return Err(self.refusal(kept)),
            (Step::Use | Step::Join | Step::JoinElseUse, None) => {
                let folder = self.folder();
                tracing::info!(folder = %folder.display(), "using the certificate that was joined with");
            }
            (Step::Use, Some(_)) => {
                tracing::info!("joined already; the token is not needed any more");
            }
            (Step::Join, Some(token)) => self.join(token).await?,
            (Step::JoinElseUse, Some(token)) => {
                if let Err(error) = self.join(token).await {
                    tracing::warn!(%error, "the new token is of no use; going on with the certificate from before");
                }
            }
        }
        self.open().map(Some)
    }

    /// The same where there must be a certificate in the end.
    pub async fn must_join(&self) -> Result<Member, JoinError> {
        self.member().await?.ok_or(JoinError::NoToken)
    }

    /// With what is kept; it renews itself.
    pub fn open(&self) -> Result<Member, JoinError> {
        let live = LiveTls::from_files(&self.files)?.ok_or(JoinError::NoToken)?;
        let endpoint = Endpoint::live(&self.server, Some(live.clone()))?;
        let renewal = Renewal::new(endpoint.clone(), self.files.clone(), live.clone());
        Ok(Member { endpoint, live, renewal })
    }

    async fn join(&self, token: &JoinToken) -> Result<(), JoinError> {
        join(&self.server, token, self.role, &self.name, &self.files).await?;
        let folder = self.folder();
        tracing::info!(folder = %folder.display(), "joined as {} {}", self.role, self.name);
        // Without it the next start just does not know an old token from a new one.
        if let Some(file) = self.token_file()
            && let Err(error) = std::fs::write(&file, token.id())
        {
            tracing::warn!(%error, file = %file.display(), "cannot write down which token was used");
        }
        Ok(())
    }

    fn kept(&self) -> Kept {
        if !self.files.certificate.as_deref().is_some_and(std::path::Path::exists) {
            return Kept::Nothing;
        }
        match self.files.load() {
            Ok(Some(material)) => self.judge(material.identity(), now()),
            Ok(None) => Kept::Nothing,
            Err(error) => Kept::Broken(error.to_string()),
        }
    }

    fn judge(&self, identity: &Identity, now: SystemTime) -> Kept {
        if (identity.role(), identity.name()) != (Some(self.role), Some(self.name.as_str())) {
            let id = identity.spiffe.as_ref().map(ToString::to_string);
            return Kept::Another(id.unwrap_or_else(|| "somebody without a name".to_owned()));
        }
        if identity.not_after <= now {
            return Kept::Ended;
        }
        let token = self.token_file().and_then(|file| std::fs::read_to_string(file).ok());
        Kept::Good { token: token.unwrap_or_default() }
    }

    fn refusal(&self, kept: Kept) -> JoinError {
        let folder = self.folder();
        match kept {
            Kept::Another(owner) => {
                let wanted = format!("{} {}", self.role, self.name);
                JoinError::Another { folder, owner, wanted }
            }
            Kept::Broken(problem) => JoinError::Broken { folder, problem },
            Kept::Ended | Kept::Nothing | Kept::Good { .. } => JoinError::Ended { folder },
        }
    }

    /// Beside the certificate; the name of a token is no secret.
    fn token_file(&self) -> Option<PathBuf> {
        self.files.certificate.as_ref().map(|file| file.with_extension("token"))
    }

    fn folder(&self) -> PathBuf {
        let file = self.files.certificate.as_deref();
        file.and_then(std::path::Path::parent).unwrap_or(std::path::Path::new(".")).to_owned()
    }
}

/// The server that machines join, on the host of another of its ports: `HOST`, or `HOST:PORT`.
pub fn server_on(address: &str) -> String {
    let host = match address.rsplit_once(':') {
        // A colon inside of brackets, or one of many without any, belongs to the address.
        Some((host, port))
            if !port.contains(']') && (!host.contains(':') || host.ends_with(']')) =>
        {
            host
        }
        Some(_) | None => address,
    };
    match host.contains(':') && !host.starts_with('[') {
        true => format!("https://[{host}]:{PORT}"),
        false => format!("https://{host}:{PORT}"),
    }
}

#[allow(clippy::disallowed_methods, reason = "certificates are judged by the time of day")]
fn now() -> SystemTime {
    SystemTime::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kept: Kept, token: Option<&str>, expect: Step) {
        assert_eq!(step(&kept, token), expect, "{kept:?} with {token:?}");
    }

    #[test]
    fn what_is_kept_and_the_token_say_what_to_do() {
        let good = |token: &str| Kept::Good { token: token.to_owned() };
        check(Kept::Nothing, None, Step::Nothing);
        check(Kept::Nothing, Some("t"), Step::Join);
        check(good("t"), None, Step::Use);
        check(good("t"), Some("t"), Step::Use);
        check(good(""), Some("t"), Step::Use);
        check(good("t"), Some("u"), Step::JoinElseUse);
        check(Kept::Ended, Some("t"), Step::Join);
        check(Kept::Ended, None, Step::Refuse);
        check(Kept::Broken(String::new()), Some("t"), Step::Join);
        check(Kept::Broken(String::new()), None, Step::Refuse);
        check(Kept::Another("x".into()), Some("t"), Step::Refuse);
        check(Kept::Another("x".into()), None, Step::Refuse);
    }

    #[test]
    fn the_server_is_on_the_host_of_its_other_ports() {
        for (address, expect) in [
            ("orrery.example:5000", "https://orrery.example:7443"),
            ("orrery.example", "https://orrery.example:7443"),
            ("127.0.0.1:8999", "https://127.0.0.1:7443"),
            ("[::1]:5000", "https://[::1]:7443"),
            ("[::1]", "https://[::1]:7443"),
            ("::1", "https://[::1]:7443"),
        ] {
            assert_eq!(server_on(address), expect, "{address}");
        }
    }
}
