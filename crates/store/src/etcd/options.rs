//! Where etcd is and how to be let in.

use std::{fmt, sync::Arc, time::Duration};

use crate::error::Error;

/// How the etcd engine is set up.
#[derive(Clone, Debug)]
pub struct EtcdOptions {
    /// `host:port` of each member, all of them if possible: the engine uses those that answer.
    pub endpoints: Vec<String>,
    /// What every key begins with, so that several systems can share one etcd.
    pub root: String,
    /// Name and password, if etcd asks for them.
    pub user: Option<Credentials>,
    /// Certificates, if etcd speaks TLS.
    pub tls: Option<EtcdTls>,
    /// Reads name, password and certificates anew, where they may change while we run.
    pub reread: Option<Reread>,
    /// How long a request may take with all its attempts before the store counts as unreachable.
    pub request_timeout: Duration,
}

/// What etcd is shown, and what it has to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proofs {
    pub user: Option<Credentials>,
    pub tls: Option<EtcdTls>,
}

type ReadProofs = dyn Fn() -> Result<Proofs, String> + Send + Sync;

/// Reads proofs from where they are kept. It may block.
#[derive(Clone)]
pub struct Reread(Arc<ReadProofs>);

impl Reread {
    pub fn new(read: impl Fn() -> Result<Proofs, String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    pub(super) async fn read(&self) -> Result<Proofs, String> {
        let read = Arc::clone(&self.0);
        let reading = tokio::task::spawn_blocking(move || read());
        reading.await.unwrap_or_else(|error| Err(error.to_string()))
    }
}

impl fmt::Debug for Reread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reread").finish_non_exhaustive()
    }
}

/// A name and a password that does not show in logs.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    pub name: String,
    pub password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("name", &self.name).finish_non_exhaustive()
    }
}

/// PEM texts for TLS to etcd.
#[derive(Clone, PartialEq, Eq)]
pub struct EtcdTls {
    /// The authority that signed etcd's certificates.
    pub authority: Vec<u8>,
    /// Our own certificate and key, where etcd demands one.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
    /// The name in etcd's certificates, where it is not the host of the endpoint.
    pub domain: Option<String>,
}

impl fmt::Debug for EtcdTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdTls").field("domain", &self.domain).finish_non_exhaustive()
    }
}

const SCHEME: &str = "etcd://";
const ROOT_DEFAULT: &str = "orrery/";

/// Longer than an election, so that a change of leaders is waited out rather than reported.
const REQUEST_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);

impl EtcdOptions {
    /// Reads `etcd://host:port[,host:port]...[/root]`. Without a root it is `orrery/`.
    pub fn from_url(url: &str) -> Result<Self, Error> {
        let wrong = |why: &str| {
            Error::invalid(format!("{url:?} is not etcd://host:port,host:port/root: {why}"))
        };
        let rest = url.strip_prefix(SCHEME).ok_or_else(|| wrong("it does not begin so"))?;
        let (hosts, root) = rest.split_once('/').unwrap_or((rest, ""));
        if hosts.contains('@') {
            return Err(wrong("name and password do not belong into it"));
        }
        let endpoints: Vec<String> = hosts.split(',').map(str::to_owned).collect();
        let complete = |endpoint: &String| {
            endpoint
                .rsplit_once(':')
                .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
        };
        if let Some(bad) = endpoints.iter().find(|endpoint| !complete(endpoint)) {
            return Err(wrong(&format!("{bad:?} is not host:port")));
        }
        let root = match root.trim_end_matches('/') {
            "" => ROOT_DEFAULT.to_owned(),
            root => format!("{root}/"),
        };
        let request_timeout = REQUEST_TIMEOUT_DEFAULT;
        Ok(Self { endpoints, root, user: None, tls: None, reread: None, request_timeout })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(url: &str, expected: Result<(&[&str], &str), &str>) {
        match (EtcdOptions::from_url(url), expected) {
            (Ok(options), Ok((endpoints, root))) => {
                assert_eq!((options.endpoints, options.root.as_str()), (strings(endpoints), root));
            }
            (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
            (outcome, expected) => panic!("{outcome:?}, expected {expected:?}"),
        }
    }

    fn strings(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn urls() {
        check("etcd://a:2379", Ok((&["a:2379"], "orrery/")));
        check("etcd://a:2379/", Ok((&["a:2379"], "orrery/")));
        check("etcd://a:1,b:2/x/y", Ok((&["a:1", "b:2"], "x/y/")));
        check("etcd://[::1]:2379/x/", Ok((&["[::1]:2379"], "x/")));
        check("http://a:2379", Err("does not begin so"));
        check("etcd://a", Err("\"a\" is not host:port"));
        check("etcd://", Err("\"\" is not host:port"));
        check("etcd://a:1,:2", Err("\":2\" is not host:port"));
        check("etcd://me:secret@a:1", Err("do not belong into it"));
    }
}
