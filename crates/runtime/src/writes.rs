//! Many writes at once, each for itself.
//!
//! Each is a commit of its own, so that a revision names one object and a watch that goes on from it leaves
//! nothing out. The store puts commits that come together on the disk together.
use futures::stream::{self, StreamExt};
use orrery_api::Encoded;
use orrery_hub::{ApplyOptions, Error, ObjectName, Outcome, Resources};

/// Writes of one caller under way at once.
const WRITES_AT_ONCE: usize = 64;

/// One thing to write.
#[derive(Clone, Debug)]
pub enum Write<T> {
    /// An object, as an apply with these options does it.
    Apply(T, ApplyOptions),
    /// Takes a finalizer away from an object.
    Release(ObjectName, &'static str),
    /// Asks for an object to go.
    Delete(ObjectName),
}

/// Writes all of them: what one of them meets does not keep the others. The outcomes are in their
/// order; an object may be among them once.
pub async fn all<T>(resources: &Resources<T>, writes: &[Write<T>]) -> Vec<Result<Outcome, Error>>
where
    T: prost::Message + prost::Name + Default,
{
    let writes: Vec<_> = writes.iter().map(|write| write.perform(resources)).collect();
    stream::iter(writes).buffered(WRITES_AT_ONCE).collect().await
}

impl<T: prost::Message + prost::Name + Default> Write<T> {
    async fn perform(&self, resources: &Resources<T>) -> Result<Outcome, Error> {
        match self {
            Self::Apply(value, options) => {
                let object = Encoded::from_typed(resources.kind(), value)
                    .map_err(|error| Error::Internal(format!("cannot write {}: {error}", T::NAME)));
                let applied = resources.accessor().apply_encoded(object?, options.clone());
                Ok(applied.await?.outcome)
            }
            Self::Release(name, finalizer) => {
                let without = |held: &String| held != finalizer;
                let released = resources.update_meta(name, |meta| meta.finalizers.retain(without));
                Ok(released.await?.outcome)
            }
            Self::Delete(name) => {
                let deleted = resources.accessor().delete(name.clone().into()).await?;
                Ok(if deleted.gone { Outcome::Gone } else { Outcome::Changed })
            }
        }
    }
}

#[cfg(test)]
mod tests;
