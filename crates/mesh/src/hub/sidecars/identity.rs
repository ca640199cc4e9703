//! What sidecars show to the servers: a certificate in the name of their service, in a secret.
//!
//! Only the agents whose nodes have the sidecars are given it. What sidecars show to other proxies comes from the
//! server, over the connection that is opened with this.
use super::names::{CERTIFICATE, KEY, ROOTS};
use crate::hub::IssuedCertificate;
use crate::names::ProxyName;
use orrery_pki::{Identity, Role};
use orrery_proto::core::v1::{Secret, SecretSpec};
use orrery_proto::meta::v1::ObjectMeta;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::Notify;

/// A certificate is replaced when so much of its life is left. Its sidecars start anew with the next, one after the
/// other.
const LEFT_MIN: f64 = 1.0 / 3.0;
/// What the secret is for.
const TYPE: &str = "proxy-identity";

/// Gives sidecars what they show to the servers.
pub trait SidecarIssuer: Send + Sync + 'static {
    /// Whom they trust. The error says why there is nobody.
    fn roots(&self) -> Result<String, String>;

    /// A certificate for sidecars of this name.
    fn issue(&self, proxy: &ProxyName) -> Result<IssuedCertificate, String>;

    /// Woken when the roots change.
    fn rotated(&self) -> Arc<Notify>;
}

/// Whether sidecars must show something to the servers.
#[derive(Clone, Default)]
pub enum SidecarTrust {
    /// Connections are plain.
    #[default]
    Plain,
    /// Connections are encrypted.
    Proven {
        issuer: Arc<dyn SidecarIssuer>,
        /// What the SPIFFE ids of servers begin with.
        servers: String,
    },
}

impl SidecarTrust {
    /// Returns when the roots have changed.
    pub async fn rotated(&self) {
        match self {
            Self::Plain => std::future::pending().await,
            Self::Proven { issuer, .. } => issuer.rotated().notified().await,
        }
    }
}

/// How long what is in a secret stays good; nothing when it has to be replaced now.
pub fn good_for(
    secret: &Secret,
    roots: &str,
    proxy: &ProxyName,
    now: SystemTime,
) -> Option<Duration> {
    let data = &secret.spec.as_ref()?.data;
    if data.get(ROOTS)? != roots.as_bytes() || !data.contains_key(KEY) {
        return None;
    }
    let identity = Identity::of_pem(data.get(CERTIFICATE)?).ok()?;
    if (identity.role(), identity.name()) != (Some(Role::Proxy), Some(proxy.as_str())) {
        return None;
    }
    let life = identity.not_after.duration_since(identity.not_before).ok()?;
    let left = identity.not_after.duration_since(now).ok()?;
    left.checked_sub(life.mul_f64(LEFT_MIN)).filter(|left| !left.is_zero())
}

pub fn secret(metadata: ObjectMeta, issued: IssuedCertificate) -> Secret {
    let bundle = issued.bundle;
    let data: HashMap<String, Vec<u8>> =
        [(ROOTS, bundle.roots), (CERTIFICATE, bundle.certificate_chain), (KEY, bundle.private_key)]
            .into_iter()
            .map(|(name, text)| (name.to_owned(), text.into_bytes()))
            .collect();
    let spec = SecretSpec { r#type: Some(TYPE.to_owned()), data, ..SecretSpec::default() };
    Secret { metadata: Some(metadata), spec: Some(spec), ..Secret::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::CertificateBundle;
    use orrery_pki::{Authority, IssueRequest, TrustDomain, Validity};

    const DAY: Duration = Duration::from_secs(86_400);

    #[test]
    fn a_certificate_is_replaced_in_time_and_with_its_roots() {
        let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000);
        let domain: TrustDomain = "example.org".parse().unwrap();
        let authority = Authority::generate(&domain, Validity::starting(start, 365 * DAY)).unwrap();
        let request = IssueRequest::new(Role::Proxy, "web.shop");
        let issued = authority.issue(&request, Validity::starting(start, 30 * DAY)).unwrap();
        let bundle = CertificateBundle {
            certificate_chain: issued.certificate_pem().to_owned(),
            private_key: issued.key_pem().to_owned(),
            roots: "roots".to_owned(),
        };
        let lifetime = 30 * DAY;
        let secret = secret(ObjectMeta::default(), IssuedCertificate { bundle, lifetime });
        let check = |roots: &str, name: &str, after: Duration| {
            good_for(&secret, roots, &name.parse().unwrap(), start + after)
        };
        let left = check("roots", "web.shop", DAY).expect("it is new");
        assert!((18 * DAY..20 * DAY).contains(&left), "{left:?}");
        assert_eq!(check("roots", "web.shop", 21 * DAY), None, "its time comes");
        assert_eq!(check("roots", "web.shop", 40 * DAY), None);
        assert_eq!(check("others", "web.shop", DAY), None, "the authority rotates");
        assert_eq!(check("roots", "db.shop", DAY), None);
        assert_eq!(
            good_for(&Secret::default(), "roots", &"web.shop".parse().unwrap(), start),
            None
        );
    }
}
