//! What belongs to a service in the store: declared, and taken away.
use super::names::{MANAGER, belongs_to, is_going, meta};
use orrery_api::Encoded;
use orrery_hub::{DeleteOptions, Error, ObjectName, Resources};
use orrery_proto::apps::v1::Workload;
use orrery_proto::core::v1::Secret;
use orrery_proto::meta::v1::ObjectMeta;
pub use orrery_runtime::owned::Declared;
use orrery_runtime::owned::{self, ignore_gone, revision};

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

/// Makes an object what is declared for the service of this identity.
pub async fn declare<T: Part>(
    resources: &Resources<T>,
    wanted: &T,
    uid: &str,
) -> Result<Declared<Encoded>, Error> {
    owned::declare(resources, wanted, T::metadata, MANAGER, |there| belongs_to(there, uid)).await
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
    ignore_gone(resources.accessor().delete(options).await).map(|_| ())
}
