//! The server's own certificate, where its own authority signs it.
use super::{IdentityProblem, server_request};
use orrery_access::{Authorities, AuthorityProblem};
use orrery_pki::{IssueRequest, LiveTls, TlsMaterial, Validity, renewal_at};
use std::convert::Infallible;
use std::net::IpAddr;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long to wait after a renewal that failed.
const RETRY_INTERVAL: Duration = Duration::from_secs(60);
/// Waiting is cut into pieces, because a machine may have slept and its clock may have been set.
const LOOK_INTERVAL: Duration = Duration::from_secs(3600);

/// A certificate that is signed anew before it ends, and when the authority changes.
#[derive(Clone)]
pub struct Own {
    authorities: Authorities,
    request: IssueRequest,
    lifetime: Duration,
    live: LiveTls,
}

impl Own {
    pub fn issue(
        authorities: Authorities,
        request: IssueRequest,
        lifetime: Duration,
    ) -> Result<Self, IdentityProblem> {
        let material = sign(&authorities, &request, lifetime)?;
        Ok(Self { authorities, request, lifetime, live: LiveTls::new(material) })
    }

    pub fn live(&self) -> LiveTls {
        self.live.clone()
    }

    pub async fn run(self, stop: CancellationToken) -> Result<(), Infallible> {
        let mut authority = self.authorities.subscribe();
        authority.mark_unchanged();
        let mut retry = None;
        loop {
            let wait = retry.unwrap_or_else(|| self.wait().min(LOOK_INTERVAL));
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                changed = authority.changed() => {
                    if changed.is_err() {
                        return Ok(());
                    }
                }
                () = tokio::time::sleep(wait) => {
                    if retry.is_none() && !self.wait().is_zero() {
                        continue;
                    }
                }
            }
            retry = match sign(&self.authorities, &self.request, self.lifetime) {
                Ok(material) => {
                    self.live.set(material);
                    tracing::info!("the server's certificate was renewed");
                    None
                }
                Err(error) => {
                    tracing::error!(%error, "the server's certificate cannot be renewed, will try again");
                    Some(RETRY_INTERVAL)
                }
            };
        }
    }

    /// Until the renewal is due.
    fn wait(&self) -> Duration {
        let (material, _) = self.live.current();
        let identity = material.identity();
        // The servers of a cluster began at different moments; that is jitter enough.
        let due = renewal_at(identity.not_before, identity.not_after, 0.5);
        due.duration_since(self.authorities.now()).unwrap_or_default()
    }
}

fn sign(
    authorities: &Authorities,
    request: &IssueRequest,
    lifetime: Duration,
) -> Result<TlsMaterial, IdentityProblem> {
    let current = authorities.signer()?;
    let validity = Validity::starting(authorities.now(), lifetime);
    let issued = current.authority()?.issue(request, validity).map_err(AuthorityProblem::from)?;
    Ok(issued.material()?)
}

/// What the certificate says: every name and address by which the server may be dialled.
pub fn request(names: &[String], listening: IpAddr) -> Result<IssueRequest, IdentityProblem> {
    let mut request = server_request("server")
        .dns("localhost")
        .ip(IpAddr::from([127, 0, 0, 1]))
        .ip(std::net::Ipv6Addr::LOCALHOST);
    if !listening.is_unspecified() && !request.ip_addresses.contains(&listening) {
        request = request.ip(listening);
    }
    for name in names {
        request = match name.parse::<IpAddr>() {
            Ok(address) => request.ip(address),
            Err(_) if is_dns_name(name) => request.dns(name),
            Err(_) => return Err(IdentityProblem::Name { name: name.clone() }),
        };
    }
    Ok(request)
}

fn is_dns_name(name: &str) -> bool {
    tokio_rustls::rustls::pki_types::DnsName::try_from(name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses() {
        let names = ["orrery.example".to_owned(), "10.0.0.7".to_owned()];
        let made = request(&names, [192, 168, 0, 1].into()).expect("good names");
        assert_eq!(made.dns_names, ["localhost", "orrery.example"]);
        assert_eq!(made.ip_addresses.len(), 4);
        assert!(request(&["not a name".to_owned()], [0, 0, 0, 0].into()).is_err());
        let anywhere = request(&[], [0, 0, 0, 0].into()).expect("good names");
        assert_eq!(anywhere.ip_addresses.len(), 2);
    }
}
