//! The resources of a kind as Rust types, for controllers.
use crate::accessor::Accessor;
use crate::error::Error;
use crate::options::{Applied, ApplyOptions, GetOptions, ListOptions, ObjectName, Outcome};
use orrery_api::{Encoded, Kind, Object};
use orrery_proto::meta::v1::ObjectMeta;
use std::marker::PhantomData;
use std::sync::Arc;

/// Typed access to one kind. Controllers read whole objects and write parts of them, so that fields
/// they do not know are kept.
#[derive(Clone)]
pub struct Resources<T> {
    accessor: Arc<dyn Accessor>,
    typed: PhantomData<fn() -> T>,
}

impl<T: prost::Message + prost::Name + Default> Resources<T> {
    pub fn new(accessor: Arc<dyn Accessor>) -> Self {
        Self { accessor, typed: PhantomData }
    }

    pub fn kind(&self) -> &Arc<Kind> {
        self.accessor.kind()
    }

    pub fn accessor(&self) -> &Arc<dyn Accessor> {
        &self.accessor
    }

    /// The resource of this name, if there is one. A project that is not there has none.
    pub async fn find(&self, name: &ObjectName) -> Result<Option<T>, Error> {
        match self.accessor.get_encoded(name.clone().into()).await {
            Ok(found) => typed_of(&found).map(Some),
            Err(Error::NotFound { .. } | Error::ProjectNotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The resource that one of the project means by this name: its own, else one that is shared with it.
    pub async fn find_readable(&self, name: &ObjectName) -> Result<Option<T>, Error> {
        let options = GetOptions { include_shared: true, ..name.clone().into() };
        match self.accessor.get_encoded(options).await {
            Ok(found) => typed_of(&found).map(Some),
            Err(Error::NotFound { .. } | Error::ProjectNotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub async fn list(&self, options: ListOptions) -> Result<Vec<T>, Error> {
        let page = self.accessor.list_encoded(options).await?;
        page.items.iter().map(typed_of).collect()
    }

    /// Creates it; an object of that name that is there already is an error.
    pub async fn create(&self, value: &T) -> Result<T, Error> {
        let applied = self.accessor.apply(self.object(value)?, ApplyOptions::create()).await?;
        typed(&applied.object)
    }

    /// Creates it with the status that it begins with.
    pub async fn create_with_status(&self, value: &T) -> Result<(), Error> {
        let options = ApplyOptions { with_status: true, ..ApplyOptions::create() };
        self.accessor.apply(self.object(value)?, options).await.map(|_| ())
    }

    /// Writes what a controller declares: metadata and spec.
    pub async fn apply(&self, value: &T) -> Result<Outcome, Error> {
        let applied = self.accessor.apply_encoded(self.encoded(value)?, ApplyOptions::default());
        Ok(applied.await?.outcome)
    }

    /// Writes only the status; `value` needs a name, a project and a status.
    pub async fn write_status(&self, value: &T) -> Result<Applied<Encoded>, Error> {
        self.accessor.apply_encoded(self.encoded(value)?, ApplyOptions::status()).await
    }

    /// Changes the metadata of an object that is there, and keeps everything else.
    pub async fn update_meta(
        &self,
        name: &ObjectName,
        change: impl Fn(&mut ObjectMeta) + Send + Sync,
    ) -> Result<Applied, Error> {
        loop {
            let mut object = self.accessor.get(name.clone().into()).await?;
            let revision = object.resource_version().parse().map_err(|_| {
                Error::Internal(format!("{name} has no revision after it was read"))
            })?;
            object.update_meta(&change);
            match self.accessor.apply(object, ApplyOptions::replace_at(revision)).await {
                Err(Error::Conflict { .. }) => tokio::task::yield_now().await,
                outcome => return outcome,
            }
        }
    }

    /// Asks for it to go; gone already is as good.
    pub async fn delete(&self, name: &ObjectName) -> Result<(), Error> {
        match self.accessor.delete(name.clone().into()).await {
            Ok(_) | Err(Error::NotFound { .. } | Error::ProjectNotFound { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn encoded(&self, value: &T) -> Result<Encoded, Error> {
        Encoded::from_typed(self.kind(), value)
            .map_err(|error| Error::Internal(format!("cannot write {}: {error}", T::NAME)))
    }

    fn object(&self, value: &T) -> Result<Object, Error> {
        Object::from_typed(self.kind(), value)
            .map_err(|error| Error::Internal(format!("cannot write {}: {error}", T::NAME)))
    }
}

fn typed<T: prost::Message + prost::Name + Default>(object: &Object) -> Result<T, Error> {
    object.typed().map_err(|error| Error::Internal(format!("cannot read {}: {error}", T::NAME)))
}

fn typed_of<T: prost::Message + prost::Name + Default>(found: &Encoded) -> Result<T, Error> {
    found.typed().map_err(|error| Error::Internal(format!("cannot read {}: {error}", T::NAME)))
}
