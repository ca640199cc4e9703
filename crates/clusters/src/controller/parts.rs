//! What belongs to a cluster in the store: declared, listed, taken away.
use crate::names::{CLUSTER_UID_LABEL, MANAGER, meta, owner};
use orrery_api::LabelSelector;
use orrery_hub::{
    ApplyOptions, DeleteOptions, Error, ListOptions, ObjectName, Precondition, Propagation,
    Resources,
};
use orrery_proto::apps::v1::Workload;
use orrery_proto::infra::v1::{MachineClass, MachineDeployment};
use orrery_proto::meta::v1::ObjectMeta;
use orrery_runtime::owned::{self, encoded, ignore_gone};
pub use orrery_runtime::owned::{Declared, revision};

/// A kind that clusters make objects of.
pub trait Part: prost::Message + prost::Name + Default {
    fn metadata(&self) -> &Option<ObjectMeta>;
    /// What becomes of what it owns in turn, and whether it waits for that.
    const PROPAGATION: Option<Propagation>;
    /// What is told when one is made, changed and taken away.
    const TOLD: Told;
}

impl Part for MachineClass {
    fn metadata(&self) -> &Option<ObjectMeta> {
        &self.metadata
    }
    const TOLD: Told =
        Told { created: "ClassCreated", changed: "ClassChanged", removed: "ClassRemoved" };
    const PROPAGATION: Option<Propagation> = None;
}

impl Part for MachineDeployment {
    fn metadata(&self) -> &Option<ObjectMeta> {
        &self.metadata
    }
    const TOLD: Told =
        Told { created: "PoolCreated", changed: "PoolChanged", removed: "PoolRemoved" };
    /// It stays until its machines are gone, so that whoever waits for it waits for them.
    const PROPAGATION: Option<Propagation> = Some(Propagation::Foreground);
}

impl Part for Workload {
    fn metadata(&self) -> &Option<ObjectMeta> {
        &self.metadata
    }
    const TOLD: Told =
        Told { created: "AddonCreated", changed: "AddonChanged", removed: "AddonRemoved" };
    const PROPAGATION: Option<Propagation> = None;
}

/// The reasons of events, in CamelCase.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    pub created: &'static str,
    pub changed: &'static str,
    pub removed: &'static str,
}

/// Makes an object what the cluster of this identity says.
pub async fn declare<T: Part>(
    resources: &Resources<T>,
    wanted: &T,
    cluster_uid: &str,
) -> Result<Declared<T>, Error> {
    let ours = |there: &_| belongs_to(there, cluster_uid);
    Ok(match owned::declare(resources, wanted, T::metadata, MANAGER, ours).await? {
        Declared::Is(object, outcome) => {
            let unreadable =
                |error| Error::Internal(format!("cannot read {} back: {error}", T::NAME));
            Declared::Is(object.typed().map_err(unreadable)?, outcome)
        }
        Declared::Going => Declared::Going,
        Declared::Taken => Declared::Taken,
        Declared::Refused(why) => Declared::Refused(why),
    })
}

/// All objects of a kind that belong to a cluster, as they are now.
pub async fn of_cluster<T: Part>(
    resources: &Resources<T>,
    project: &str,
    cluster_uid: &str,
) -> Result<Vec<T>, Error> {
    let mut found = labelled(resources, project, cluster_uid).await?;
    found.retain(|it| belongs_to(it.metadata(), cluster_uid));
    Ok(found)
}

/// All objects of a kind that carry the label of a cluster, as they are now.
pub async fn labelled<T: prost::Message + prost::Name + Default>(
    resources: &Resources<T>,
    project: &str,
    cluster_uid: &str,
) -> Result<Vec<T>, Error> {
    let labels = LabelSelector::parse(&format!("{CLUSTER_UID_LABEL}={cluster_uid}"))
        .map_err(|error| Error::Internal(format!("the identity of a cluster: {error}")))?;
    let project = Some(project.to_owned());
    let options = ListOptions { project, labels, ..ListOptions::default() };
    resources.list(options).await
}

/// Asks an object to go, if it is as it was seen; says whether that is news.
pub async fn remove<T: Part>(resources: &Resources<T>, object: &T) -> Result<bool, Error> {
    let own = meta(object.metadata());
    if own.deletion_timestamp.is_some() {
        return Ok(false);
    }
    let options = DeleteOptions {
        name: ObjectName::new(&own.project, &own.name),
        uid: Some(own.uid.clone()),
        revision: Some(revision(object.metadata())?),
        propagation: T::PROPAGATION,
        ..DeleteOptions::default()
    };
    Ok(ignore_gone(resources.accessor().delete(options).await)?.is_some())
}

fn belongs_to(metadata: &Option<ObjectMeta>, cluster_uid: &str) -> bool {
    owner(metadata).is_some_and(|owner| owner.uid == cluster_uid)
}

/// Writes the status of an object, as it was when it had this metadata.
pub async fn write_status<T: prost::Message + prost::Name + Default>(
    resources: &Resources<T>,
    metadata: &Option<ObjectMeta>,
    next: &T,
) -> Result<(), Error> {
    let precondition = Precondition::At(revision(metadata)?);
    let options = ApplyOptions { precondition, ..ApplyOptions::status() };
    resources.accessor().apply_encoded(encoded(resources, next)?, options).await.map(|_| ())
}
