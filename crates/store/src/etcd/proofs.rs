//! What etcd is shown: a password and certificates, and the channels made with them. Files of both are replaced
//! while servers run; what is refused is read anew, and tried again if it has changed.

use std::{error::Error as _, time::Duration};

use parking_lot::RwLock;
use tokio::{sync::Mutex, time::Instant};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

use super::options::{Credentials, EtcdOptions, EtcdTls, Proofs, Reread};
use crate::error::Error;

/// How long connecting to one member may take.
const CONNECT: Duration = Duration::from_secs(1);

/// How often a silent connection is probed. etcd closes connections that probe more often than
/// every five seconds.
const PROBE: Duration = Duration::from_secs(6);
const PROBE_ANSWER: Duration = Duration::from_secs(3);

/// How often files are read at most while nobody lets us in.
const READ_INTERVAL: Duration = Duration::from_secs(1);

pub(super) struct Shown {
    endpoints: Vec<String>,
    now: RwLock<Now>,
    reread: Option<Reread>,
    /// When the files were read last. Held while they are.
    read: Mutex<Option<Instant>>,
}

struct Now {
    proofs: Proofs,
    members: Vec<Channel>,
}

impl Shown {
    pub fn new(options: &EtcdOptions) -> Result<Self, Error> {
        let proofs = Proofs { user: options.user.clone(), tls: options.tls.clone() };
        let members = channels(&options.endpoints, proofs.tls.as_ref())?;
        if members.is_empty() {
            return Err(Error::invalid("no endpoint of etcd is given"));
        }
        let now = RwLock::new(Now { proofs, members });
        let (endpoints, reread) = (options.endpoints.clone(), options.reread.clone());
        Ok(Self { endpoints, now, reread, read: Mutex::default() })
    }

    /// How many members there are.
    pub fn count(&self) -> usize {
        self.endpoints.len()
    }

    pub fn member(&self, index: usize) -> Channel {
        self.now.read().members[index].clone()
    }

    pub fn user(&self) -> Option<Credentials> {
        self.now.read().proofs.user.clone()
    }

    /// Reads what is shown anew, unless that was done a moment ago.
    pub async fn renew(&self) {
        let Some(reread) = &self.reread else { return };
        let mut read = self.read.lock().await;
        if read.is_some_and(|read| read.elapsed() < READ_INTERVAL) {
            return;
        }
        let found = reread.read().await.and_then(|proofs| self.take(proofs));
        *read = Some(Instant::now());
        if let Err(error) = found {
            tracing::warn!(error, "cannot read anew what etcd is shown");
        }
    }

    fn take(&self, proofs: Proofs) -> Result<(), String> {
        if self.now.read().proofs == proofs {
            return Ok(());
        }
        let members = if self.now.read().proofs.tls == proofs.tls {
            self.now.read().members.clone()
        } else {
            let made = channels(&self.endpoints, proofs.tls.as_ref());
            made.map_err(|error| error.to_string())?
        };
        *self.now.write() = Now { proofs, members };
        tracing::info!("password or certificates for etcd have changed, and are in use");
        Ok(())
    }
}

fn channels(endpoints: &[String], tls: Option<&EtcdTls>) -> Result<Vec<Channel>, Error> {
    endpoints.iter().map(|endpoint| channel(endpoint, tls)).collect()
}

fn channel(endpoint: &str, tls: Option<&EtcdTls>) -> Result<Channel, Error> {
    let wrong = |error: tonic::transport::Error| {
        let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
        Error::invalid(format!("etcd endpoint {endpoint:?}: {error}{cause}"))
    };
    let scheme = if tls.is_some() { "https" } else { "http" };
    let mut builder = Endpoint::from_shared(format!("{scheme}://{endpoint}"))
        .map_err(wrong)?
        .connect_timeout(CONNECT)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(PROBE)
        .keep_alive_timeout(PROBE_ANSWER)
        .keep_alive_while_idle(true);
    if let Some(tls) = tls {
        builder = builder.tls_config(tls_config(tls)).map_err(wrong)?;
    }
    Ok(builder.connect_lazy())
}

fn tls_config(tls: &EtcdTls) -> ClientTlsConfig {
    let mut config = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&tls.authority));
    if let Some((certificate, key)) = &tls.identity {
        config = config.identity(Identity::from_pem(certificate, key));
    }
    if let Some(domain) = &tls.domain {
        config = config.domain_name(domain.clone());
    }
    config
}
