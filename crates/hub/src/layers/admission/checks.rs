//! What is refused.
use super::{Admission, revision_of};
use crate::accessor::Accessor as _;
use crate::error::Error;
use crate::options::{ApplyOptions, Merge, Part, Precondition};
use crate::ownership::MANAGER_BYTES_MAX;
use crate::refusal::modified;
use orrery_api::{Object, Violation, is_name};

impl Admission {
    /// What can be said without looking at what is there; the options, made exact.
    pub(super) fn check_request(
        &self,
        object: &Object,
        mut options: ApplyOptions,
    ) -> Result<ApplyOptions, Error> {
        self.check_names(object)?;
        if options.merge == Merge::Apply {
            self.check_declared(object, &options.manager)?;
        }
        if options.part == Part::Status {
            self.check_status(options.precondition)?;
            options.precondition = match options.precondition {
                Precondition::Any | Precondition::Absent => Precondition::Present,
                exact @ (Precondition::Present | Precondition::At(_)) => exact,
            };
        }
        options.precondition = pinned(options.precondition, object)?;
        Ok(options)
    }

    /// What has no proper name cannot even be looked up.
    fn check_names(&self, object: &Object) -> Result<(), Error> {
        let placed = self.kind().cluster_scoped() || is_name(object.project());
        if placed && is_name(object.name()) {
            return Ok(());
        }
        // Tell everything at once, as if the object were new.
        let mut all = object.clone();
        all.default();
        self.refuse(object, all.validate(None))
    }

    /// Whoever declares fields says who it is, and does not speak of whose they are.
    fn check_declared(&self, object: &Object, manager: &str) -> Result<(), Error> {
        let path = "fieldManager";
        let violation = match manager.len() {
            0 => Violation::required(path, "is required for apply: say who declares the fields"),
            1..=MANAGER_BYTES_MAX => {
                if !object.is_managed() {
                    return Ok(());
                }
                let text = "metadata.managedFields must not be part of what is declared: remove it";
                return Err(Error::BadRequest(text.into()));
            }
            _ => Violation::too_long(path, MANAGER_BYTES_MAX),
        };
        let (kind, name) = ("PatchOptions".to_owned(), String::new());
        Err(Error::Invalid { kind, name, violations: vec![violation] })
    }

    /// A status belongs to an object that is there.
    fn check_status(&self, wanted: Precondition) -> Result<(), Error> {
        let kind = self.kind().kind();
        if !self.kind().has_status() {
            return Err(Error::BadRequest(format!("{kind} has no status")));
        }
        if wanted == Precondition::Absent {
            let text = format!("a {kind} cannot be created with its status; create it first");
            return Err(Error::BadRequest(text));
        }
        Ok(())
    }

    pub(super) fn check_precondition(
        &self,
        given: &Object,
        wanted: Precondition,
        old: Option<&Object>,
    ) -> Result<(), Error> {
        let kind = || self.kind().qualified_plural();
        let (project, name) = (given.project().to_owned(), given.name().to_owned());
        match (wanted, old) {
            (Precondition::Absent, Some(old)) if old.deletion_timestamp().is_some() => {
                Err(Error::BeingDeleted { kind: kind(), name })
            }
            (Precondition::Absent, Some(_)) => {
                Err(Error::AlreadyExists { kind: kind(), project, name })
            }
            (Precondition::Present | Precondition::At(_), None) => {
                Err(Error::NotFound { kind: kind(), project, name })
            }
            (Precondition::At(at), Some(old)) if revision_of(old)? != at => {
                Err(self.conflict(&name, modified(old.resource_version(), at)))
            }
            (_, Some(old)) if !given.uid().is_empty() && given.uid() != old.uid() => Err(self
                .conflict(&name, "another object has this name now (its uid differs)".to_owned())),
            (Precondition::Any | Precondition::Absent, None)
            | (Precondition::Any | Precondition::Present | Precondition::At(_), Some(_)) => Ok(()),
        }
    }

    pub(super) fn admit(
        &self,
        next: &Object,
        old: Option<&Object>,
        options: &ApplyOptions,
    ) -> Result<(), Error> {
        if let Some(admit) = &options.admit {
            admit.judge(next, old)?;
        }
        let mut violations = match options.part {
            Part::Main | Part::Scale => next.validate(old),
            // Whoever writes a status is not to blame for a spec that an older version let in.
            Part::Status => next.validate_status(old),
        };
        violations.extend(old.and_then(|old| late_finalizer(next, old)));
        self.refuse(next, violations)
    }

    fn refuse(&self, object: &Object, violations: Vec<Violation>) -> Result<(), Error> {
        if violations.is_empty() {
            return Ok(());
        }
        let (kind, name) = (self.kind().kind().to_owned(), object.name().to_owned());
        Err(Error::Invalid { kind, name, violations })
    }
}

/// Nobody can begin to hold an object that is already going: whoever does may come too late.
fn late_finalizer(next: &Object, old: &Object) -> Option<Violation> {
    old.deletion_timestamp()?;
    let held = old.finalizers();
    let late = next.finalizers().into_iter().find(|finalizer| !held.contains(finalizer))?;
    let why = format!("the object is being deleted, so {late:?} cannot be added");
    Some(Violation::forbidden("metadata.finalizers", &why))
}

/// A revision in the object itself is as good as one in the options.
fn pinned(wanted: Precondition, object: &Object) -> Result<Precondition, Error> {
    let given = object.resource_version();
    match wanted {
        Precondition::Any | Precondition::Present if !given.is_empty() => {
            let revision = given.parse().map_err(|_| {
                Error::BadRequest(format!("metadata.resourceVersion {given:?} is no revision"))
            })?;
            Ok(Precondition::At(revision))
        }
        Precondition::Any | Precondition::Present | Precondition::Absent | Precondition::At(_) => {
            Ok(wanted)
        }
    }
}
