//! What belongs to a service in the store: declared, and taken away.
use super::names::{MANAGER, belongs_to, is_going, meta};
use orrery_api::Encoded;
use orrery_hub::{ApplyOptions, DeleteOptions, Error, ObjectName, Precondition, Resources};
use orrery_proto::apps::v1::Workload;
use orrery_proto::core::v1::Secret;
use orrery_proto::meta::v1::ObjectMeta;

/// A kind that is made for services.
pub trait Part: prost::Message + prost::Name + Default {
    fn metadata(&self) -> &Option<ObjectMeta>;
}

impl Part for Workload {
    fn metadata(&self) -> &Option<ObjectMeta> {
        &self.metadata
    }
}

impl Part for Secret {
    fn metadata(&self) -> &Option<ObjectMeta> {
        &self.metadata
    }
}

/// What became of a declaration.
#[derive(Debug, PartialEq, Eq)]
pub enum Declared {
    Is,
    /// The object is on its way out; it is made anew when it is gone.
    Going,
    /// An object of that name is somebody else's.
    Taken,
    /// It cannot be stored, and why.
    Refused(String),
}

/// Makes an object what is declared for the service of this identity, and leaves fields alone of which nothing is
/// said. An object that is not the service's stays as it is.
pub async fn declare<T: Part>(
    resources: &Resources<T>,
    wanted: &T,
    uid: &str,
) -> Result<Declared, Error> {
    let own = meta(wanted.metadata());
    let there = resources.find(&ObjectName::new(&own.project, &own.name)).await?;
    let precondition = match &there {
        None => Precondition::Absent,
        Some(there) if !belongs_to(there.metadata(), uid) => return Ok(Declared::Taken),
        Some(there) if is_going(there.metadata()) => return Ok(Declared::Going),
        Some(there) => Precondition::At(revision(there.metadata())?),
    };
    let object = Encoded::from_typed(resources.kind(), wanted)
        .map_err(|error| Error::Internal(format!("cannot write {}: {error}", T::NAME)))?;
    let options = ApplyOptions { precondition, force: true, ..ApplyOptions::declared_by(MANAGER) };
    match resources.accessor().apply_encoded(object, options).await {
        Ok(_) => Ok(Declared::Is),
        Err(error @ (Error::Invalid { .. } | Error::TooLarge(_) | Error::Forbidden(_))) => {
            Ok(Declared::Refused(error.to_string()))
        }
        Err(error) => Err(error),
    }
}

/// Asks an object to go if it is the service's.
pub async fn remove<T: Part>(
    resources: &Resources<T>,
    name: &ObjectName,
    uid: &str,
) -> Result<(), Error> {
    let Some(there) = resources.find(name).await? else { return Ok(()) };
    if !belongs_to(there.metadata(), uid) || is_going(there.metadata()) {
        return Ok(());
    }
    let options = DeleteOptions {
        name: name.clone(),
        uid: Some(meta(there.metadata()).uid.clone()),
        revision: Some(revision(there.metadata())?),
        ..DeleteOptions::default()
    };
    match resources.accessor().delete(options).await {
        Ok(_) | Err(Error::NotFound { .. } | Error::ProjectNotFound { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

/// The revision that an object was read at.
fn revision(metadata: &Option<ObjectMeta>) -> Result<orrery_hub::Revision, Error> {
    let metadata = meta(metadata);
    metadata.resource_version.parse().map_err(|_| {
        Error::Internal(format!("{} has no revision after it was read", metadata.name))
    })
}
