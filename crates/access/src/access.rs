//! What is in force now: roles, bindings, revocations and access tokens, as the store last told them.
use crate::decide::{self, Attributes, Decision};
use crate::grant::{self, Excess};
use crate::oidc::{Oidc, OidcRefusal};
use crate::present::Present;
use crate::revoked::Revoked;
use crate::rules::{Rule, Rules};
use orrery_api::Object;
use orrery_hub::{Clock, Error, Hub, ObjectName};
use orrery_pki::{BearerToken, Identity, KnownBy, SecretHash, Subject};
use orrery_proto::core::v1::{AccessToken, Revocation, Role, RoleBinding};
use orrery_runtime::{OnEnd, Reflector, Tasks, View};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
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

/// How often an open stream looks whether its token is still good: an issuer takes keys back without
/// telling us. What has an end of its own is looked at then.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
/// Clocks of machines are set, and stand still while a machine sleeps; so waiting for a time of day is
/// cut into pieces ...
const CLOCK_LOOK_MAX: Duration = Duration::from_secs(60);
/// ... and not into splinters: the clock shows whole seconds.
const CLOCK_LOOK_MIN: Duration = Duration::from_millis(100);

/// For whom access tokens are made: this API, and whoever asks it about them.
pub const AUDIENCE: &str = "orrery";

/// Who shows a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    pub subject: Subject,
    /// Seconds of the epoch; without it, it ends when it is taken back.
    pub ends: Option<i64>,
    /// For whom the token is made.
    pub audience: String,
}

/// Changes of roles and bindings, from the moment on at which it was made.
pub struct Changes(watch::Receiver<Arc<Rules>>);

impl Changes {
    /// Whether there was one since it was looked for; costs next to nothing.
    pub fn happened(&mut self) -> bool {
        let changed = self.0.has_changed().unwrap_or(false);
        if changed {
            self.0.mark_unchanged();
        }
        changed
    }

    /// Returns after the next one.
    pub async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            // Nothing changes any more.
            std::future::pending::<()>().await;
        }
    }
}

/// Why an open connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    Revoked,
    Expired,
}

impl Over {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Revoked => "the identity is revoked",
            Self::Expired => "the certificate has ended",
        }
    }
}

/// Decides for one who acts by a role, as that role is at the moment at which this was made.
#[derive(Clone, Debug)]
pub struct Acting {
    rules: Rules,
    subject: Subject,
}

impl Acting {
    pub fn decide(&self, asked: &Attributes) -> Decision {
        decide::decide(&self.rules, &self.subject, asked)
    }

    /// Whether it may make this of an object that gives access to others.
    pub fn may_give(&self, next: &Object, old: Option<&Object>) -> Result<(), Excess> {
        grant::may_give(&self.rules, &self.subject, next, old)
    }
}

/// Decides for everybody. Cheap to clone.
#[derive(Clone)]
pub struct Access {
    inner: Arc<Inner>,
}

struct Inner {
    rules: watch::Sender<Arc<Rules>>,
    tokens: Arc<View<AccessToken>>,
    revoked: watch::Sender<Arc<Revoked>>,
    clock: Arc<dyn Clock>,
    oidc: Option<Arc<Oidc>>,
    synced: [watch::Receiver<bool>; 4],
    present: Present,
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
                rules: watch::Sender::new(Arc::default()),
                tokens: tokens.view(),
                revoked: watch::Sender::new(Arc::default()),
                clock: hub.clock().clone(),
                oidc,
                synced: [roles.synced(), bindings.synced(), revocations.synced(), tokens.synced()],
                present: Present::default(),
            }),
        };
        let inner = access.inner.clone();
        roles.on_change(move |change| {
            inner.change_rules(|rules| rules.set_role(&change.name, change.new.as_deref()));
        });
        let inner = access.inner.clone();
        bindings.on_change(move |change| {
            inner.change_rules(|rules| rules.set_binding(&change.name, change.new.as_deref()));
        });
        let inner = access.inner.clone();
        revocations.on_change(move |change| {
            let set = |all: &mut Revoked| all.set(&change.name, change.new.as_deref());
            inner.revoked.send_modify(|revoked| set(Arc::make_mut(revoked)));
        });
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
        let rules = self.inner.rules.borrow().clone();
        decide::decide(&rules, subject, asked)
    }

    /// Whether nothing that roles and bindings say changes what somebody may do.
    pub fn may_everything(&self, subject: &Subject) -> bool {
        decide::everything(subject).is_some()
    }

    /// Decides for one who acts by one role in one project, whatever else is bound to anybody.
    pub fn acting(&self, who: &str, project: &str, role: &str) -> Acting {
        let subject = Subject::person(who.to_owned(), Vec::new(), KnownBy::Token);
        let rules = self.inner.rules.borrow().bound_only_to(&subject, project, role);
        Acting { rules, subject }
    }

    /// Tells when roles or bindings have changed.
    pub fn changes(&self) -> Changes {
        Changes(self.inner.rules.subscribe())
    }

    /// Whether somebody may make this of an object that gives access to others.
    pub fn may_give(
        &self,
        subject: &Subject,
        next: &Object,
        old: Option<&Object>,
    ) -> Result<(), Excess> {
        let rules = self.inner.rules.borrow().clone();
        grant::may_give(&rules, subject, next, old)
    }

    /// Everything that somebody may do in a project.
    pub fn permissions(&self, subject: &Subject, project: &str) -> Vec<Rule> {
        let rules = self.inner.rules.borrow().clone();
        decide::permissions(&rules, subject, project)
    }

    /// Whether a peer of this role and name is disabled, whatever it shows.
    pub fn refuses_peer(&self, role: orrery_pki::Role, name: &str) -> bool {
        self.inner.revoked.borrow().refuses_peer(role, name)
    }

    pub fn refuses(&self, identity: &Identity) -> bool {
        self.inner.revoked.borrow().refuses(identity)
    }

    /// Whether somebody is disabled, however they were proven.
    pub fn refuses_subject(&self, subject: &Subject) -> bool {
        self.inner.revoked.borrow().refuses_subject(subject)
    }

    /// Why whoever shows this certificate is welcome no longer, if so.
    pub fn over(&self, identity: &Identity) -> Option<Over> {
        if self.refuses(identity) {
            return Some(Over::Revoked);
        }
        let left = left(identity.not_after, self.inner.clock.now().seconds);
        left.is_zero().then_some(Over::Expired)
    }

    /// Who is connected: everybody for whom it is waited until they are refused.
    pub fn present(&self) -> &Present {
        &self.inner.present
    }

    /// Returns when this identity is disabled, or its certificate has ended.
    pub async fn until_refused(&self, identity: &Identity) -> Over {
        let _there = self.inner.present.enter(identity);
        let mut revoked = self.inner.revoked.subscribe();
        loop {
            revoked.mark_unchanged();
            if let Some(over) = self.over(identity) {
                return over;
            }
            let left = left(identity.not_after, self.inner.clock.now().seconds);
            let wait = left.clamp(CLOCK_LOOK_MIN, CLOCK_LOOK_MAX);
            // The sender lives as long as we do, and the time may have come.
            let _ = tokio::time::timeout(wait, revoked.changed()).await;
        }
    }

    /// Who shows this token.
    pub async fn login(&self, text: &str) -> Result<Login, LoginRefusal> {
        let login = match (BearerToken::parse(text), &self.inner.oidc) {
            (Some(token), _) => self.inner.known_token(&token)?,
            (None, Some(oidc)) => oidc.login(text, self.inner.clock.now().seconds).await?,
            (None, None) => return Err(LoginRefusal::NotOurs),
        };
        if self.refuses_subject(&login.subject) {
            return Err(LoginRefusal::Revoked);
        }
        Ok(login)
    }

    /// Returns when this token is good no longer, or stands for somebody else than it did.
    pub async fn until_logged_out(&self, text: &str, subject: &Subject) {
        let mut changes = self.inner.revoked.subscribe();
        while let Ok(login) = self.login(text).await {
            if login.subject != *subject {
                return;
            }
            // It may also end because its time has come.
            let left = login.ends.map(|end| end.saturating_sub(self.inner.clock.now().seconds));
            let left = left.map(|left| Duration::from_secs(u64::try_from(left).unwrap_or(0)));
            let wait = left.unwrap_or(LOOK_AGAIN).clamp(CLOCK_LOOK_MIN, LOOK_AGAIN);
            let changed = tokio::time::timeout(wait, changes.changed()).await;
            if matches!(changed, Ok(Err(_))) {
                return;
            }
        }
    }
}

impl Inner {
    /// Whoever decides by the rules of before keeps them; then they are copied, otherwise changed.
    fn change_rules(&self, change: impl FnOnce(&mut Rules)) {
        self.rules.send_modify(|rules| change(Arc::make_mut(rules)));
    }

    fn known_token(&self, shown: &BearerToken) -> Result<Login, LoginRefusal> {
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
        let ends = spec.expires_at.map(|end| end.seconds);
        let subject = Subject::person(spec.user().to_owned(), spec.groups, KnownBy::Token);
        Ok(Login { subject, ends, audience: AUDIENCE.to_owned() })
    }
}

/// How long until a time of day.
fn left(end: SystemTime, now: i64) -> Duration {
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(now).unwrap_or(0));
    end.duration_since(now).unwrap_or_default()
}
