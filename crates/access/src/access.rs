//! What is in force now: roles, bindings, revocations and access tokens, as the store last told them.
use crate::decide::{self, Attributes, Decision};
use crate::oidc::{Oidc, OidcRefusal};
use crate::revoked::Revoked;
use crate::rules::{Rule, Rules};
use orrery_hub::{Clock, Error, Hub, ObjectName};
use orrery_pki::{BearerToken, Identity, KnownBy, SecretHash, Subject};
use orrery_proto::core::v1::{AccessToken, Revocation, Role, RoleBinding};
use orrery_runtime::{OnEnd, Reflector, Tasks, View};
use parking_lot::RwLock;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// Why somebody who shows a token is nobody. The log is told; the bearer is told the same for all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoginRefusal {
    #[error("the text is no token that is known here")]
    NotOurs,
    #[error("there is no such access token")]
    NoToken,
    #[error("the secret of the access token is wrong")]
    Secret,
    #[error("the access token has expired")]
    Expired,
    #[error("the identity is revoked")]
    Revoked,
    #[error("{0}")]
    Oidc(#[from] OidcRefusal),
}

/// How often an open stream looks whether its token has expired.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// Decides for everybody. Cheap to clone.
#[derive(Clone)]
pub struct Access {
    inner: Arc<Inner>,
}

struct Inner {
    rules: RwLock<Arc<Rules>>,
    roles: Arc<View<Role>>,
    bindings: Arc<View<RoleBinding>>,
    revocations: Arc<View<Revocation>>,
    tokens: Arc<View<AccessToken>>,
    revoked: watch::Sender<Arc<Revoked>>,
    clock: Arc<dyn Clock>,
    oidc: Option<Arc<Oidc>>,
    synced: [watch::Receiver<bool>; 4],
}

impl Access {
    /// Follows what the store says, until the tasks are stopped.
    pub fn spawn(hub: &Hub, oidc: Option<Arc<Oidc>>, tasks: &mut Tasks) -> Result<Self, Error> {
        let mut roles = Reflector::<Role>::new(hub.resources()?);
        let mut bindings = Reflector::<RoleBinding>::new(hub.resources()?);
        let mut revocations = Reflector::<Revocation>::new(hub.resources()?);
        let mut tokens = Reflector::<AccessToken>::new(hub.resources()?);
        let access = Self {
            inner: Arc::new(Inner {
                rules: RwLock::default(),
                roles: roles.view(),
                bindings: bindings.view(),
                revocations: revocations.view(),
                tokens: tokens.view(),
                revoked: watch::Sender::new(Arc::default()),
                clock: hub.clock().clone(),
                oidc,
                synced: [roles.synced(), bindings.synced(), revocations.synced(), tokens.synced()],
            }),
        };
        let inner = access.inner.clone();
        roles.on_change(move |_| inner.read_rules());
        let inner = access.inner.clone();
        bindings.on_change(move |_| inner.read_rules());
        let inner = access.inner.clone();
        revocations.on_change(move |_| inner.read_revoked());
        let inner = access.inner.clone();
        // Whoever is connected with a token looks again whether it still is there.
        tokens.on_change(move |_| inner.revoked.send_modify(|_| {}));
        let stop = tasks.stop_token();
        tasks.spawn("access-roles", OnEnd::StopAll, roles.run(stop.clone()));
        tasks.spawn("access-bindings", OnEnd::StopAll, bindings.run(stop.clone()));
        tasks.spawn("access-revocations", OnEnd::StopAll, revocations.run(stop.clone()));
        tasks.spawn("access-tokens", OnEnd::StopAll, tokens.run(stop));
        Ok(access)
    }

    /// Returns when everything is known that was there at the start; before, too little would be
    /// allowed, and too little refused.
    pub async fn ready(&self) {
        for synced in &self.inner.synced {
            if *synced.borrow() {
                continue;
            }
            // The sender lives as long as the reflector; when it is gone the server is stopping.
            let _ = synced.clone().wait_for(|synced| *synced).await;
        }
    }

    pub fn decide(&self, subject: &Subject, asked: &Attributes) -> Decision {
        let rules = self.inner.rules.read().clone();
        decide::decide(&rules, subject, asked)
    }

    /// Everything that somebody may do in a project.
    pub fn permissions(&self, subject: &Subject, project: &str) -> Vec<Rule> {
        let rules = self.inner.rules.read().clone();
        decide::permissions(&rules, subject, project)
    }

    pub fn refuses(&self, identity: &Identity) -> bool {
        self.inner.revoked.borrow().refuses(identity)
    }

    /// Returns when this identity is disabled.
    pub async fn until_refused(&self, identity: &Identity) {
        let mut revoked = self.inner.revoked.subscribe();
        // The sender lives as long as we do.
        let _ = revoked.wait_for(|revoked| revoked.refuses(identity)).await;
    }

    /// Who shows this token.
    pub async fn login(&self, text: &str) -> Result<Subject, LoginRefusal> {
        let subject = match (BearerToken::parse(text), &self.inner.oidc) {
            (Some(token), _) => self.inner.known_token(&token)?,
            (None, Some(oidc)) => oidc.login(text, self.inner.clock.now().seconds).await?,
            (None, None) => return Err(LoginRefusal::NotOurs),
        };
        if self.inner.revoked.borrow().refuses_subject(&subject) {
            return Err(LoginRefusal::Revoked);
        }
        Ok(subject)
    }

    /// Returns when this token is good no longer.
    pub async fn until_logged_out(&self, text: &str) {
        let mut changes = self.inner.revoked.subscribe();
        while self.login(text).await.is_ok() {
            // It may also end because its time has come.
            let changed = tokio::time::timeout(LOOK_AGAIN, changes.changed()).await;
            if matches!(changed, Ok(Err(_))) {
                return;
            }
        }
    }
}

impl Inner {
    fn read_rules(&self) {
        let (roles, bindings) = (self.roles.all(), self.bindings.all());
        let roles = roles.iter().map(|(name, role)| (name.clone(), &**role));
        let bindings = bindings.iter().map(|(name, binding)| (name.clone(), &**binding));
        *self.rules.write() = Arc::new(Rules::new(roles, bindings));
    }

    fn read_revoked(&self) {
        let all = self.revocations.all();
        let revoked = Revoked::new(all.iter().map(|(_, revocation)| &**revocation));
        self.revoked.send_replace(Arc::new(revoked));
    }

    fn known_token(&self, shown: &BearerToken) -> Result<Subject, LoginRefusal> {
        let known = self.tokens.get(&ObjectName::new("", shown.id()));
        let known = known.ok_or(LoginRefusal::NoToken)?;
        let spec = known.spec.clone().unwrap_or_default();
        if SecretHash::parse(spec.secret_hash()) != Some(shown.hash()) {
            return Err(LoginRefusal::Secret);
        }
        let now = self.clock.now();
        if spec.expires_at.is_some_and(|end| end.seconds <= now.seconds) {
            return Err(LoginRefusal::Expired);
        }
        Ok(Subject::person(spec.user().to_owned(), spec.groups, KnownBy::Token))
    }
}
