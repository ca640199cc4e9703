//! The authority that the servers share: in the store, which seals what holds keys.
mod current;

pub use current::Current;

use crate::authority::current::{spec_of, stored};
use crate::present;
use orrery_hub::{ApplyOptions, Clock, Error, Hub, ObjectName, Resources};
use orrery_pki::{Authority, AuthorityError, Identity, Role, TrustDomain, Validity};
use orrery_proto::core::v1::{StoredAuthority, StoredAuthoritySpec};
use orrery_proto::meta::v1::ObjectMeta;
use orrery_runtime::Reflector;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// There is one.
const NAME: &str = "authority";
/// How long an authority that we make is good for; it is rotated long before.
pub const AUTHORITY_LIFETIME: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Why there is no authority to sign with.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityProblem {
    #[error(
        "the authority's key is not there: it was brought without one, so nobody can join here"
    )]
    NoKey,
    #[error("there is no authority yet; start the server with --tls, or give it --authority")]
    None,
    #[error(
        "another authority is in use already, with the fingerprint {0}; rotate it with: orrery pki rotate"
    )]
    Another(orrery_pki::Fingerprint),
    #[error(transparent)]
    Authority(#[from] AuthorityError),
    #[error(transparent)]
    Hub(#[from] Error),
}

/// The shared authority. Cheap to clone.
#[derive(Clone)]
pub struct Authorities {
    resources: Resources<StoredAuthority>,
    clock: Arc<dyn Clock>,
    current: watch::Sender<Option<Arc<Current>>>,
    /// Who was given a certificate here since the rotation that is under way began, by name. They use
    /// it from their next connection on.
    renewed: Arc<Mutex<BTreeMap<String, Identity>>>,
}

impl Authorities {
    /// Reads what is there.
    pub async fn open(hub: &Hub) -> Result<Self, AuthorityProblem> {
        let authorities = Self {
            resources: hub.resources()?,
            clock: hub.clock().clone(),
            current: watch::Sender::new(None),
            renewed: Arc::default(),
        };
        authorities.read().await?;
        Ok(authorities)
    }

    /// Whom peers trust, and who signs; `None` where certificates come from elsewhere.
    pub fn current(&self) -> Option<Arc<Current>> {
        self.current.borrow().clone()
    }

    pub fn subscribe(&self) -> watch::Receiver<Option<Arc<Current>>> {
        self.current.subscribe()
    }

    /// The authority that signs, or why there is none.
    pub fn signer(&self) -> Result<Arc<Current>, AuthorityProblem> {
        let current = self.current().ok_or(AuthorityProblem::None)?;
        current.authority()?;
        Ok(current)
    }

    /// Makes an authority unless there is one.
    pub async fn ensure(&self, domain: &TrustDomain) -> Result<Arc<Current>, AuthorityProblem> {
        if let Some(current) = self.current() {
            return Ok(current);
        }
        let validity = Validity::starting(self.now(), AUTHORITY_LIFETIME);
        let authority = Authority::generate(domain, validity)?;
        let spec = spec_of(&authority, authority.root_pem().to_owned());
        self.create(spec).await
    }

    /// Takes an authority of the user's. Without its key it says whom to trust, and signs nothing.
    pub async fn bring(
        &self,
        certificate_pem: &str,
        key_pem: Option<&str>,
        domain: Option<TrustDomain>,
    ) -> Result<Arc<Current>, AuthorityProblem> {
        let spec = match key_pem {
            Some(key) => {
                let authority = Authority::from_pem(certificate_pem, key, domain)?;
                spec_of(&authority, authority.root_pem().to_owned())
            }
            None => current::without_key(certificate_pem, domain)?,
        };
        let brought = current::fingerprint(&spec)?;
        match self.current() {
            None => self.create(spec).await,
            Some(known) if known.fingerprint() != brought => {
                Err(AuthorityProblem::Another(known.fingerprint()))
            }
            // The key may have been brought later.
            Some(known) if key_pem.is_some() && known.authority().is_err() => {
                self.replace(&known, spec).await
            }
            Some(known) => Ok(known),
        }
    }

    /// Puts a successor in the place of the authority that signs. Both are trusted, and the successor
    /// is vouched for by its predecessor.
    pub async fn rotate(&self) -> Result<Arc<Current>, AuthorityProblem> {
        let known = self.signer()?;
        let validity = Validity::starting(self.now(), AUTHORITY_LIFETIME);
        let successor = known.authority()?.successor(validity)?;
        let roots = successor.root_pem().to_owned() + known.roots_pem();
        let spec = spec_of(&successor, roots);
        self.replace(&known, spec).await
    }

    /// Remembers who has renewed, while that matters: one entry for each machine.
    pub fn note_renewed(&self, identity: &Identity) {
        if self.current().is_some_and(|current| current.is_rotating()) {
            self.renewed.lock().insert(present::name(identity), identity.clone());
        }
    }

    /// Whether the end of the rotation would lock somebody out: their certificate is of an older
    /// authority, and they were given no other one here.
    pub fn leaves_behind(&self, identity: &Identity) -> bool {
        let Some(current) = self.current() else { return false };
        let renewed = self.renewed.lock().get(&present::name(identity)).cloned();
        current.leaves(identity) && !renewed.is_some_and(|renewed| current.has_signed(&renewed))
    }

    /// Trusts only the authority that signs.
    pub async fn finish_rotation(&self) -> Result<Arc<Current>, AuthorityProblem> {
        let known = self.signer()?;
        // Only a rotation leaves more than one, and then the one that signs is a root itself.
        if known.roots_pem().matches("BEGIN CERTIFICATE").count() <= 1 {
            return Ok(known);
        }
        let authority = known.authority()?;
        let spec = spec_of(authority, authority.certificate_pem().to_owned());
        let finished = self.replace(&known, StoredAuthoritySpec { chain: None, ..spec }).await?;
        self.renewed.lock().clear();
        Ok(finished)
    }

    /// Follows what other servers do, until it is told to stop.
    pub async fn run(self, stop: CancellationToken) -> Result<(), Error> {
        let mut reflector = Reflector::<StoredAuthority>::new(self.resources.clone());
        let follower = self.clone();
        reflector.on_change(move |change| {
            if let Some(stored) = &change.new {
                follower.take(stored);
            }
        });
        reflector.run(stop).await
    }

    /// The time, as certificates tell it.
    pub fn now(&self) -> SystemTime {
        let now = self.clock.now();
        SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(now.seconds).unwrap_or_default())
    }

    async fn read(&self) -> Result<Option<Arc<Current>>, Error> {
        let found = self.resources.find(&ObjectName::new("", NAME)).await?;
        if let Some(stored) = &found {
            self.take(stored);
        }
        Ok(self.current())
    }

    /// What was written last counts, whichever way it was heard of first.
    fn take(&self, stored: &StoredAuthority) {
        let next = Current::open(stored);
        if let Err(problem) = next.authority() {
            tracing::warn!(%problem, "the authority signs nothing here");
        }
        self.current.send_if_modified(|known| {
            let newer = known.as_ref().is_none_or(|known| known.revision() < next.revision());
            if newer {
                *known = Some(Arc::new(next));
            }
            newer
        });
    }

    async fn create(&self, spec: StoredAuthoritySpec) -> Result<Arc<Current>, AuthorityProblem> {
        let metadata = ObjectMeta { name: NAME.to_owned(), ..ObjectMeta::default() };
        match self.resources.create(&stored(metadata, spec)).await {
            Ok(created) => self.take(&created),
            // Another server was faster; its authority is ours too.
            Err(Error::AlreadyExists { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        self.read().await?.ok_or(AuthorityProblem::None)
    }

    async fn replace(
        &self,
        known: &Current,
        spec: StoredAuthoritySpec,
    ) -> Result<Arc<Current>, AuthorityProblem> {
        let metadata = ObjectMeta { name: NAME.to_owned(), ..ObjectMeta::default() };
        let next = stored(metadata, spec);
        let object = orrery_api::Object::from_typed(self.resources.kind(), &next)
            .map_err(|error| Error::Internal(error.to_string()))?;
        let at = orrery_hub::Revision(known.revision());
        self.resources.accessor().apply(object, ApplyOptions::replace_at(at)).await?;
        self.read().await?.ok_or(AuthorityProblem::None)
    }
}

/// The machines that may have certificates by joining; people and servers get theirs from people.
pub const MACHINES: [Role; 5] =
    [Role::Agent, Role::Driver, Role::Proxy, Role::Controller, Role::Host];
