//! Objects that a controller makes out of others: what is in their metadata, and what becomes of declaring one.
use orrery_api::Encoded;
use orrery_hub::{ApplyOptions, Error, ObjectName, Outcome, Precondition, Resources, Revision};
use orrery_proto::meta::v1::ObjectMeta;
use std::sync::LazyLock;

/// What became of a declaration.
#[derive(Debug, PartialEq, Eq)]
pub enum Declared<T> {
    /// It is so, and was so before unless it says otherwise.
    Is(T, Outcome),
    /// The object is on its way out; it is made anew when it is gone.
    Going,
    /// An object of that name is somebody else's.
    Taken,
    /// It cannot be stored, and why.
    Refused(String),
}

/// Makes an object what is wanted, as the manager of the fields that `wanted` speaks of, and leaves the others alone. An
/// object whose metadata is not `ours` stays as it is.
pub async fn declare<T: prost::Message + prost::Name + Default>(
    resources: &Resources<T>,
    wanted: &T,
    metadata: impl Fn(&T) -> &Option<ObjectMeta>,
    manager: &str,
    ours: impl Fn(&Option<ObjectMeta>) -> bool,
) -> Result<Declared<Encoded>, Error> {
    let own = meta(metadata(wanted));
    let there = resources.find(&ObjectName::new(&own.project, &own.name)).await?;
    let precondition = match &there {
        None => Precondition::Absent,
        Some(there) if !ours(metadata(there)) => return Ok(Declared::Taken),
        Some(there) if is_going(metadata(there)) => return Ok(Declared::Going),
        Some(there) => Precondition::At(revision(metadata(there))?),
    };
    let object = encoded(resources, wanted)?;
    let options = ApplyOptions { precondition, force: true, ..ApplyOptions::declared_by(manager) };
    match resources.accessor().apply_encoded(object, options).await {
        Ok(applied) => Ok(Declared::Is(applied.object, applied.outcome)),
        Err(error @ (Error::Invalid { .. } | Error::TooLarge(_) | Error::Forbidden(_))) => {
            Ok(Declared::Refused(error.to_string()))
        }
        Err(error) => Err(error),
    }
}

/// An object as accessors take it.
pub fn encoded<T: prost::Message + prost::Name + Default>(
    resources: &Resources<T>,
    object: &T,
) -> Result<Encoded, Error> {
    Encoded::from_typed(resources.kind(), object)
        .map_err(|error| Error::Internal(format!("cannot write {}: {error}", T::NAME)))
}

/// The metadata of an object, or that of none.
pub fn meta(metadata: &Option<ObjectMeta>) -> &ObjectMeta {
    static NOTHING: LazyLock<ObjectMeta> = LazyLock::new(ObjectMeta::default);
    metadata.as_ref().unwrap_or(&NOTHING)
}

/// Whether an object is on its way out.
pub fn is_going(metadata: &Option<ObjectMeta>) -> bool {
    meta(metadata).deletion_timestamp.is_some()
}

/// The revision that an object was read at.
pub fn revision(metadata: &Option<ObjectMeta>) -> Result<Revision, Error> {
    let metadata = meta(metadata);
    metadata.resource_version.parse().map_err(|_| {
        Error::Internal(format!("{} has no revision after it was read", metadata.name))
    })
}

/// What is gone already need not be taken away.
pub fn ignore_gone<T>(outcome: Result<T, Error>) -> Result<Option<T>, Error> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(Error::NotFound { .. } | Error::ProjectNotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}
