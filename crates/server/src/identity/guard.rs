//! What the one who asks may do and see: the check in front of every operation.
use super::authenticate::TOKEN_BYTES_MAX;
use orrery_access::{Access, Attributes, Decision, Login, Rule};
use orrery_api::{Kind, Object};
use orrery_hub::{Accessor, Admit, Error, ObjectName};
use orrery_pki::Subject;
use std::borrow::Cow;
use std::sync::Arc;

/// The kind whose readers may see what is sensitive in other kinds too.
const SECRETS: (&str, &str) = ("core", "secrets");
/// The group of what is no kind of its own: logs, backups.
const APPS: &str = "apps";
const CORE: &str = "core";
const INFRA: &str = "infra";

/// How the annotations end in which tools keep what they applied.
const LAST_APPLIED: &str = "last-applied-configuration";

/// A question about a kind, or about a part of its objects.
pub fn asked_of_part(
    verb: &str,
    kind: &Kind,
    subresource: &str,
    project: &str,
    name: &str,
) -> Attributes {
    let project = if kind.cluster_scoped() { "" } else { project };
    Attributes::new(verb, kind.group(), kind.plural()).named(project, name).part(subresource)
}

/// The same about what is no kind.
pub fn asked_of_resource(
    verb: &str,
    resource: &str,
    subresource: &str,
    project: &str,
    name: &str,
) -> Attributes {
    let group = match resource {
        "workloads" => APPS,
        "nodes" => INFRA,
        _ => CORE,
    };
    Attributes::new(verb, group, resource).named(project, name).part(subresource)
}

/// Asks for one subject. Cheap to clone.
#[derive(Clone)]
pub struct Guard {
    access: Access,
    subject: Arc<Subject>,
    borrowed: Option<Borrowed>,
}

/// By what right somebody asks as somebody else: who it is, and all that they must be allowed for it.
#[derive(Clone, Debug)]
pub struct Borrowed(Arc<(Subject, Vec<Attributes>)>);

impl Borrowed {
    pub fn new(asker: Subject, needed: impl IntoIterator<Item = Attributes>) -> Self {
        Self(Arc::new((asker, needed.into_iter().collect())))
    }
}

impl Guard {
    /// For somebody of whom nothing is known yet, and who therefore may do nothing.
    pub fn new(access: Access) -> Self {
        Self { access, subject: Subject::unknown().into(), borrowed: None }
    }

    /// The same for somebody else.
    #[must_use]
    pub fn of(&self, subject: Subject) -> Self {
        Self { access: self.access.clone(), subject: subject.into(), borrowed: None }
    }

    /// The same where another asks as this one.
    #[must_use]
    pub fn borrowed(self, borrowed: Option<Borrowed>) -> Self {
        Self { borrowed, ..self }
    }

    /// Refuses when whoever asks as this one may not do so any more.
    pub fn check_borrowed(&self) -> Result<(), Error> {
        let Some(Borrowed(borrowed)) = &self.borrowed else { return Ok(()) };
        let (asker, needed) = &**borrowed;
        let asker = self.of(asker.clone());
        needed.iter().try_for_each(|asked| asker.refuse_unless(asked))
    }

    /// Whether no change of roles and bindings could end what this one listens to.
    pub fn listens_for_ever(&self) -> bool {
        self.borrowed.is_none() && self.may_everything()
    }

    pub fn subject(&self) -> &Subject {
        &self.subject
    }

    /// Whether nothing that roles and bindings say changes what this one may do.
    pub fn may_everything(&self) -> bool {
        self.access.may_everything(&self.subject)
    }

    pub fn decide(&self, asked: &Attributes) -> Decision {
        self.access.decide(&self.subject, asked)
    }

    pub fn permissions(&self, project: &str) -> Vec<Rule> {
        self.access.permissions(&self.subject, project)
    }

    /// Who shows this token, if it is good; the reason why not is for the log.
    pub async fn login(&self, token: &str) -> Result<Login, String> {
        if TOKEN_BYTES_MAX < token.len() {
            return Err("the token is too long".to_owned());
        }
        self.access.login(token).await.map_err(|refusal| refusal.to_string())
    }

    /// Whether this one is disabled.
    pub fn is_disabled(&self) -> bool {
        self.access.refuses_subject(&self.subject)
    }

    /// Whether it is allowed, where nobody is told that it is not.
    pub fn may(&self, verb: &str, kind: &Kind, project: &str, name: &str) -> bool {
        self.may_everything()
            || self.decide(&asked_of_part(verb, kind, "", project, name)).allowed()
    }

    /// Why something that is not there cannot be written: it may only be shared with the project. Who may not
    /// read it is not told.
    pub async fn explain_absence(
        &self,
        accessor: &dyn Accessor,
        name: &ObjectName,
        error: Error,
    ) -> Error {
        if !self.may("get", accessor.kind(), &name.project, &name.name) {
            return error;
        }
        orrery_hub::explain_absence(accessor, name, error).await
    }

    /// Refuses what is not allowed.
    pub fn check(&self, verb: &str, kind: &Kind, project: &str, name: &str) -> Result<(), Error> {
        self.check_part(verb, kind, "", project, name)
    }

    /// The same for a part of a resource.
    pub fn check_part(
        &self,
        verb: &str,
        kind: &Kind,
        subresource: &str,
        project: &str,
        name: &str,
    ) -> Result<(), Error> {
        // Asked for every request: who may do everything need not be asked what.
        if self.may_everything() {
            return Ok(());
        }
        self.refuse_unless(&asked_of_part(verb, kind, subresource, project, name))
    }

    /// Whether this one may say where an object came from: git sync deletes what left the place that is
    /// written there, so that is for those who may delete it themselves.
    pub fn check_lineage(&self, kind: &Kind, project: &str, name: &str) -> Result<(), Error> {
        self.check("delete", kind, project, name)
    }

    /// What this one may make of objects of a kind; nothing needs to be asked about most kinds. Every
    /// write on behalf of somebody carries it.
    pub fn admit(&self, kind: &Kind) -> Option<Admit> {
        // Who may do everything may share everything.
        let only_shared = kind.shareable() && self.may_everything();
        if !orrery_access::gives_access(kind) || only_shared {
            return None;
        }
        let (access, subject) = (self.access.clone(), self.subject.clone());
        Some(Admit::new(move |next, old| {
            access.may_give(&subject, next, old).map_err(|excess| {
                tracing::warn!(who = subject.name, reason = %excess, "refused");
                Error::Forbidden(excess.to_string())
            })
        }))
    }

    /// The same for what is no kind: the logs of workloads, backups.
    pub fn check_resource(
        &self,
        verb: &str,
        resource: &str,
        subresource: &str,
        project: &str,
        name: &str,
    ) -> Result<(), Error> {
        self.refuse_unless(&asked_of_resource(verb, resource, subresource, project, name))
    }

    pub(super) fn access(&self) -> &Access {
        &self.access
    }

    /// Refuses what is not allowed, and tells the log.
    pub fn refuse_unless(&self, asked: &Attributes) -> Result<(), Error> {
        let decision = self.decide(asked);
        if decision.allowed() {
            return Ok(());
        }
        let Attributes { verb, group, resource, subresource, project, name } = asked;
        let who = &self.subject.name;
        tracing::warn!(
            who,
            verb,
            group,
            resource,
            subresource,
            project,
            name,
            reason = decision.reason(),
            "refused"
        );
        let part = if subresource.is_empty() { String::new() } else { format!("/{subresource}") };
        let place = match project.as_str() {
            "" => " everywhere".to_owned(),
            project => format!(" in project {project:?}"),
        };
        Err(Error::Forbidden(format!("user {who:?} cannot {verb} {resource}{part}{place}")))
    }

    /// Whether the one who asks may see every secret there is.
    pub fn sees_everything(&self) -> bool {
        self.decide(&Attributes::new("get", SECRETS.0, SECRETS.1)).allowed()
    }

    /// An object as the one who asks may see it: what is sensitive is for those who may read the
    /// secrets of its project.
    pub fn shown<'a>(&self, object: &'a Object) -> Cow<'a, Object> {
        if !object.kind().has_secrets() {
            return Cow::Borrowed(object);
        }
        let asked = Attributes::new("get", SECRETS.0, SECRETS.1);
        let name = if object.kind().plural() == SECRETS.1 { object.name() } else { "" };
        if self.decide(&asked.named(object.project(), name)).allowed() {
            return Cow::Borrowed(object);
        }
        let mut shown = object.redacted();
        // What was applied is written down there as a whole.
        shown.update_meta(|meta| meta.annotations.retain(|key, _| !key.ends_with(LAST_APPLIED)));
        Cow::Owned(shown)
    }
}
