//! Pools: each becomes a class and a deployment of machines.
use super::cluster::{ClusterReconciler, taken};
use super::parts::{self, Declared};
use crate::names::meta;
use crate::plan::State;
use crate::plan::pools::{self, Pool};
use orrery_hub::{Error, ObjectName};
use orrery_proto::infra::v1::{Cluster, MachineClass, MachineDeployment, PoolStatus};
use orrery_proto::meta::v1::ObjectMeta;

impl ClusterReconciler {
    /// Makes a pool what it should be, and says how it fares.
    pub(super) async fn pool(&self, cluster: &Cluster, pool: &Pool) -> Result<PoolStatus, Error> {
        let uid = &meta(&cluster.metadata).uid;
        let mut class = None;
        if let Some(wanted) = &pool.class {
            match parts::declare(&self.classes, wanted, uid).await? {
                Declared::Is(is, outcome) => {
                    self.tell_of(cluster, &is, outcome).await;
                    class = Some(meta(&is.metadata).generation);
                }
                other => return Ok(held_up::<MachineClass>(pool, other, "machineclass")),
            }
        } else if let Some(named) = template_class(pool) {
            let named = ObjectName::new(&meta(&cluster.metadata).project, named);
            let found = self.classes.find(&named).await?;
            class = found.map(|class| meta(&class.metadata).generation);
        }
        match parts::declare(&self.deployments, &pool.deployment, uid).await? {
            Declared::Is(is, outcome) => {
                self.tell_of(cluster, &is, outcome).await;
                Ok(pools::judge(pool, &is, class))
            }
            other => Ok(held_up::<MachineDeployment>(pool, other, "machinedeployment")),
        }
    }

    /// Takes away what pools became that are not in the spec any more, and says what is left of it.
    pub(super) async fn remove_pools(
        &self,
        cluster: &Cluster,
        pools: &[Pool],
    ) -> Result<Vec<PoolStatus>, Error> {
        let ObjectMeta { project, uid, .. } = meta(&cluster.metadata);
        let mut left = Vec::new();
        let kept = |it: &Option<ObjectMeta>| {
            pools.iter().any(|pool| meta(&pool.deployment.metadata).name == meta(it).name)
        };
        for deployment in parts::of_cluster(&self.deployments, project, uid).await? {
            if !kept(&deployment.metadata) {
                self.remove(cluster, &self.deployments, &deployment).await?;
                left.push(pools::leaving(&deployment));
            }
        }
        let declared = |it: &Option<ObjectMeta>| {
            let classes = pools.iter().filter_map(|pool| pool.class.as_ref());
            classes.into_iter().any(|class| meta(&class.metadata).name == meta(it).name)
        };
        for class in parts::of_cluster(&self.classes, project, uid).await? {
            if !declared(&class.metadata) {
                self.remove(cluster, &self.classes, &class).await?;
            }
        }
        Ok(left)
    }
}

/// Why a pool could not become what it should.
fn held_up<T>(pool: &Pool, declared: Declared<T>, kind: &str) -> PoolStatus {
    let name = &meta(&pool.deployment.metadata).name;
    let (state, why) = match declared {
        Declared::Taken => (State::Failing, taken(kind, name)),
        Declared::Refused(why) => (State::Failing, why),
        Declared::Going | Declared::Is(..) => {
            (State::Progressing, "what was here before is being taken away".to_owned())
        }
    };
    pools::reported(pool, state, why)
}

fn template_class(pool: &Pool) -> Option<&str> {
    Some(pool.deployment.spec.as_ref()?.template.as_ref()?.class())
}
