//! An accessor that speaks `orrery.hub.v1.Hub` to the service that keeps a kind.
use super::errors::Question;
use super::link::Link;
use super::requests::{self, pinned};
use super::watch;
use async_trait::async_trait;
use futures::StreamExt as _;
use orrery_api::{Encoded, Kind, Object, ObjectError};
use orrery_hub::{
    Accessor, Applied, ApplyOptions, DeleteOptions, Deleted, Error, GetOptions, ListOptions, Merge,
    ObjectName, Outcome, Page, Part, Precondition, StatusOptions, Version, WatchOptions,
    WatchStream,
};
use orrery_proto::hub::v1 as wire;
use orrery_proto::hub::v1::apply_request::Mode;
use std::sync::Arc;

/// How often a list is begun anew whose moment the upstream has forgotten.
const LIST_ATTEMPTS: usize = 3;
/// How often a change of what is there is tried again that others were faster with.
const WRITE_ATTEMPTS: usize = 5;

/// The objects of a kind at an upstream. Names of projects are the same on both sides; revisions are the upstream's.
pub struct Remote {
    kind: Arc<Kind>,
    link: Arc<Link>,
    address: String,
}

impl Remote {
    pub fn new(kind: Arc<Kind>, link: Arc<Link>) -> Self {
        let address = link.address().to_owned();
        Self { kind, link, address }
    }

    fn about<'a>(&'a self, name: &'a ObjectName) -> Question<'a> {
        Question { kind: &self.kind, upstream: &self.address, name, writes: false }
    }

    /// The same where something is written, unless it is only tried.
    fn about_writing<'a>(&'a self, name: &'a ObjectName, dry_run: bool) -> Question<'a> {
        Question { writes: !dry_run, ..self.about(name) }
    }

    fn found(&self, resource: Option<wire::Resource>) -> Result<Encoded, Error> {
        requests::found(&self.kind, resource).map_err(|why| {
            let Self { kind, address, .. } = self;
            Error::Internal(format!("{address} answered with no {}: {why}", kind.kind()))
        })
    }

    /// One part of a list, as large as the upstream makes it.
    async fn page(&self, options: &ListOptions) -> Result<Page<Encoded>, Error> {
        let place = ObjectName::new(options.project.as_deref().unwrap_or_default(), "");
        let request = requests::list(&self.kind, options);
        let question = self.about(&place);
        let answer = self
            .link
            .ask(&question, request, |mut hub, request| async move { hub.list(request).await });
        let answer = answer.await?;
        let items = answer.items.into_iter().map(|item| self.found(Some(item)));
        Ok(Page {
            items: items.collect::<Result<_, _>>()?,
            revision: self.revision(&answer.resource_version)?,
            continue_from: Some(answer.r#continue).filter(|token| !token.is_empty()),
            remaining: None,
        })
    }

    /// Everything, part after part, true at one revision.
    async fn all(&self, options: &ListOptions) -> Result<Page<Encoded>, Error> {
        let mut whole = self.page(options).await?;
        while let Some(token) = whole.continue_from.take() {
            let next = ListOptions { continue_from: Some(token), ..options.clone() };
            let Page { items, continue_from, .. } = self.page(&next).await?;
            whole.items.extend(items);
            whole.continue_from = continue_from;
        }
        Ok(whole)
    }

    fn revision(&self, text: &str) -> Result<orrery_hub::Revision, Error> {
        let address = &self.address;
        text.parse().map_err(|_| Error::Internal(format!("{address}: {text:?} is no revision")))
    }

    async fn send(
        &self,
        name: &ObjectName,
        given: Encoded,
        mode: Mode,
        options: &ApplyOptions,
    ) -> Result<Applied<Encoded>, Error> {
        let request = requests::apply(&self.kind, &given, mode, options);
        let question = self.about_writing(name, options.dry_run);
        let answer = self
            .link
            .ask(&question, request, |mut hub, request| async move { hub.apply(request).await });
        let answer = answer.await?;
        let outcome = match answer.outcome() {
            wire::apply_response::Outcome::Created => Outcome::Created,
            wire::apply_response::Outcome::Changed => Outcome::Changed,
            wire::apply_response::Outcome::Unchanged => Outcome::Unchanged,
        };
        Ok(Applied { object: self.found(answer.resource)?, outcome })
    }

    /// The upstream knows three modes; the other wishes are made of them.
    async fn write(
        &self,
        name: &ObjectName,
        given: Encoded,
        options: &ApplyOptions,
    ) -> Result<Applied<Encoded>, Error> {
        let bad = |error: ObjectError| Error::BadRequest(error.to_string());
        let send = |given, mode| self.send(name, given, mode, options);
        match (options.merge, options.precondition) {
            (_, Precondition::Absent) => send(given, Mode::Create).await,
            (Merge::Replace, Precondition::Present) => send(given, Mode::Replace).await,
            (Merge::Replace, Precondition::At(at)) => {
                send(pinned(&given, at).map_err(bad)?, Mode::Replace).await
            }
            (Merge::Replace, Precondition::Any) => match send(given.clone(), Mode::Replace).await {
                Err(Error::NotFound { .. }) => send(given, Mode::Create).await,
                outcome => outcome,
            },
            (Merge::Declared | Merge::Apply, Precondition::At(at)) => {
                send(pinned(&given, at).map_err(bad)?, Mode::Apply).await
            }
            // A status is written to what is there only.
            (Merge::Declared | Merge::Apply, Precondition::Present)
                if options.part == Part::Main =>
            {
                self.write_present(name, &given, options).await
            }
            (Merge::Declared | Merge::Apply, Precondition::Present | Precondition::Any) => {
                send(given, Mode::Apply).await
            }
        }
    }

    /// Declares something about what must be there: at the revision that it was found at.
    async fn write_present(
        &self,
        name: &ObjectName,
        given: &Encoded,
        options: &ApplyOptions,
    ) -> Result<Applied<Encoded>, Error> {
        let bad = |error: ObjectError| Error::BadRequest(error.to_string());
        let named = !given.resource_version().map_err(bad)?.is_empty();
        let mut attempt = 1;
        loop {
            let there = self.get_encoded(name.clone().into()).await?;
            let at = self.revision(there.resource_version().map_err(bad)?)?;
            let next = if named { given.clone() } else { pinned(given, at).map_err(bad)? };
            match self.send(name, next, Mode::Apply, options).await {
                Err(Error::Conflict { .. }) if !named && attempt < WRITE_ATTEMPTS => attempt += 1,
                outcome => return outcome,
            }
        }
    }

    /// What cannot be promised across two stores is refused.
    fn check(&self, bound: bool, part: Part) -> Result<(), Error> {
        let (plural, address) = (self.kind.plural(), &self.address);
        if bound {
            return Err(Error::BadRequest(format!(
                "{plural} are kept at {address}, so they cannot be written together with what is kept here"
            )));
        }
        if part == Part::Scale {
            return Err(Error::BadRequest(format!(
                "{plural} are kept at {address}, where their number of copies is set with the rest"
            )));
        }
        Ok(())
    }
}

fn unfit(error: ObjectError) -> Error {
    Error::Internal(error.to_string())
}

#[async_trait]
impl Accessor for Remote {
    fn kind(&self) -> &Arc<Kind> {
        &self.kind
    }

    async fn get(&self, options: GetOptions) -> Result<Object, Error> {
        self.get_encoded(options).await?.into_object().map_err(unfit)
    }

    async fn list(&self, options: ListOptions) -> Result<Page, Error> {
        let page = self.list_encoded(options).await?;
        page.try_map(|item| item.into_object().map_err(unfit))
    }

    async fn apply(&self, object: Object, options: ApplyOptions) -> Result<Applied, Error> {
        let Applied { object, outcome } = self.apply_encoded(object.into(), options).await?;
        Ok(Applied { object: object.into_object().map_err(unfit)?, outcome })
    }

    async fn delete(&self, options: DeleteOptions) -> Result<Deleted, Error> {
        self.check(!options.guards.is_empty() || options.batch.is_some(), Part::Main)?;
        let request = requests::delete(&self.kind, &options);
        let question = self.about_writing(&options.name, options.dry_run);
        let answer = self
            .link
            .ask(&question, request, |mut hub, request| async move { hub.delete(request).await });
        let answer = answer.await?;
        let object = self.found(answer.resource)?.into_object().map_err(unfit)?;
        Ok(Deleted { object, gone: answer.gone })
    }

    async fn status(&self, options: StatusOptions) -> Result<Object, Error> {
        if !self.kind.has_status() {
            return Err(Error::BadRequest(format!("{} has no status", self.kind.kind())));
        }
        let StatusOptions { name, include_lineage, include_shared } = options;
        self.get(GetOptions { name, include_lineage, include_shared, version: None }).await
    }

    async fn watch(&self, options: WatchOptions) -> Result<WatchStream, Error> {
        let events = self.watch_encoded(options).await?;
        let decoded = |found: Encoded| found.into_object().map_err(unfit);
        Ok(events.map(move |event| event?.try_map(decoded)).boxed())
    }

    async fn versions(&self, _: ObjectName) -> Result<Vec<Version>, Error> {
        Err(Error::BadRequest(format!("no versions are kept of {}", self.kind.plural())))
    }

    async fn get_encoded(&self, options: GetOptions) -> Result<Encoded, Error> {
        if options.version.is_some() {
            return Err(Error::BadRequest(format!(
                "no versions are kept of {}",
                self.kind.plural()
            )));
        }
        let request = requests::get(&self.kind, &options);
        let question = self.about(&options.name);
        let answer = self
            .link
            .ask(&question, request, |mut hub, request| async move { hub.get(request).await });
        self.found(answer.await?.resource)
    }

    async fn apply_encoded(
        &self,
        given: Encoded,
        options: ApplyOptions,
    ) -> Result<Applied<Encoded>, Error> {
        self.check(!options.guards.is_empty() || options.batch.is_some(), options.part)?;
        let bad = |error: ObjectError| Error::BadRequest(error.to_string());
        let name = ObjectName::new(given.project().map_err(bad)?, given.name().map_err(bad)?);
        self.write(&name, given, &options).await
    }

    async fn list_encoded(&self, options: ListOptions) -> Result<Page<Encoded>, Error> {
        if let Some(at) = options.at {
            // The contract has no lists of other moments.
            return Err(Error::Expired { requested: at, oldest: at, resume: None });
        }
        if 0 < options.limit || options.continue_from.is_some() {
            return self.page(&options).await;
        }
        let mut attempt = 1;
        loop {
            match self.all(&options).await {
                Err(Error::Expired { .. }) if attempt < LIST_ATTEMPTS => attempt += 1,
                outcome => return outcome,
            }
        }
    }

    async fn watch_encoded(&self, options: WatchOptions) -> Result<WatchStream<Encoded>, Error> {
        watch::open(self.kind.clone(), self.link.clone(), options).await
    }
}
