//! Writing a status without undoing what somebody else wrote meanwhile.
use orrery_api::Object;
use orrery_hub::{ApplyOptions, Error, ObjectName, Precondition, Resources};
use orrery_proto::meta::v1::Condition;
pub use orrery_runtime::owned::meta;

/// Changes the status of an object and writes it if it differs. The change is made again on what is
/// there when somebody was quicker. Nothing happens to an object that is gone.
pub async fn update<T>(
    resources: &Resources<T>,
    name: &ObjectName,
    change: impl Fn(&mut T) + Send + Sync,
) -> Result<Option<T>, Error>
where
    T: prost::Message + prost::Name + Default + Clone + PartialEq,
{
    loop {
        let object = match resources.accessor().get(name.clone().into()).await {
            Ok(object) => object,
            Err(Error::NotFound { .. } | Error::ProjectNotFound { .. }) => return Ok(None),
            Err(error) => return Err(error),
        };
        let unreadable = |error| Error::Internal(format!("cannot read {name}: {error}"));
        let before: T = object.typed().map_err(unreadable)?;
        let mut after = before.clone();
        change(&mut after);
        if after == before {
            return Ok(Some(after));
        }
        let revision = object
            .resource_version()
            .parse()
            .map_err(|_| Error::Internal(format!("{name} has no revision after it was read")))?;
        let object = Object::from_typed(resources.kind(), &after).map_err(unreadable)?;
        let precondition = Precondition::At(revision);
        let options = ApplyOptions { precondition, ..ApplyOptions::status() };
        match resources.accessor().apply(object, options).await {
            Err(Error::Conflict { .. }) => tokio::task::yield_now().await,
            Err(Error::NotFound { .. } | Error::ProjectNotFound { .. }) => return Ok(None),
            outcome => return outcome.map(|_| Some(after)),
        }
    }
}

/// The condition that sums a status up.
pub fn ready(ready: &str, reason: &str, message: &str, generation: i64) -> Condition {
    Condition {
        r#type: "Ready".into(),
        status: ready.into(),
        reason: reason.into(),
        message: message.into(),
        observed_generation: generation,
        ..Condition::default()
    }
}
