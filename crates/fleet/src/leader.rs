//! What one server does for all: placing workloads, and noticing the end of other servers.
use crate::agents::assignments::Assignments;
use crate::agents::nodes::Nodes;
use crate::agents::unknown::Unknown;
use crate::fleet::mark_gone;
use crate::workloads::uploads::Uploads;
use crate::workloads::watches::Watches;
use orrery_hub::artifacts::Artifacts;
use orrery_hub::{Error, Hub};
use orrery_proto::infra::v1::Node;
use orrery_runtime::{OnEnd, Tasks, View};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long the agents of a server that ended have to come back, here or to another server, before
/// they count as gone. They try every second.
const RETURN_GRACE: Duration = Duration::from_secs(10);
/// How often is looked for nodes whose server has ended.
const SWEEP_INTERVAL: Duration = Duration::from_secs(1);

/// What the names of the servers' own leases begin with.
pub const SERVER_LEASES: &str = "servers/";

/// The name of a server's own lease.
pub fn server_lease(server: &str) -> String {
    format!("{SERVER_LEASES}{server}")
}

/// Starts what only the leader does, on a hub that is fenced by its lease.
pub fn spawn(hub: &Hub, assignments: Arc<Assignments>, tasks: &mut Tasks) -> Result<(), Error> {
    let stop = tasks.stop_token();
    let mut watches = Watches::new(hub)?;
    let controller = watches.controller(hub)?;
    let uploads = Uploads { artifacts: Artifacts::new(hub.clone()), users: watches.file_users() };
    let Watches { workloads, instances, nodes, secrets, volumes, controllers, .. } = watches;
    let sweep = Sweep {
        hub: hub.clone(),
        nodes: Nodes::new(hub, "", "")?,
        unknown: Unknown::new(hub, assignments)?,
        view: nodes.view(),
    };
    let synced = vec![
        workloads.synced(),
        instances.synced(),
        nodes.synced(),
        secrets.synced(),
        volumes.synced(),
        controllers.synced(),
    ];
    tasks.spawn("instance-watch", OnEnd::StopAll, instances.run(stop.clone()));
    tasks.spawn("node-watch", OnEnd::StopAll, nodes.run(stop.clone()));
    tasks.spawn("secret-watch", OnEnd::StopAll, secrets.run(stop.clone()));
    tasks.spawn("used-volume-watch", OnEnd::StopAll, volumes.run(stop.clone()));
    tasks.spawn("used-storage-watch", OnEnd::StopAll, controllers.run(stop.clone()));
    tasks.spawn("workload-watch", OnEnd::StopAll, workloads.run(stop.clone()));
    let queue = controller.queue();
    let told = move |workload| queue.add(workload);
    tasks.spawn("artifact-watch", OnEnd::StopAll, uploads.run(told, stop.clone()));
    controller.spawn("workload-controller", synced, tasks);
    tasks.spawn("node-sweep", OnEnd::StopAll, sweep.run(stop));
    Ok(())
}

/// Marks the nodes whose server ended and that did not come back.
struct Sweep {
    hub: Hub,
    nodes: Nodes,
    unknown: Unknown,
    view: Arc<View<Node>>,
}

impl Sweep {
    async fn run(self, stop: CancellationToken) -> Result<(), Error> {
        // Since when a session has no server any more.
        let mut orphans: HashMap<(String, i64), Instant> = HashMap::new();
        loop {
            tokio::select! {
                () = stop.cancelled() => return Ok(()),
                () = tokio::time::sleep(SWEEP_INTERVAL) => {}
            }
            let sessions = match self.orphaned().await {
                Ok(sessions) => sessions,
                Err(error) => {
                    tracing::warn!(%error, "cannot see which servers there are");
                    continue;
                }
            };
            orphans.retain(|session, _| sessions.contains(session));
            for session in sessions {
                let since = *orphans.entry(session.clone()).or_insert_with(Instant::now);
                if RETURN_GRACE <= since.elapsed() {
                    let why = "its server ended, and it did not come back";
                    mark_gone(&self.nodes, &self.unknown, &session.0, session.1, why).await;
                }
            }
        }
    }

    /// The sessions that belong to servers that are not there.
    async fn orphaned(&self) -> Result<Vec<(String, i64)>, Error> {
        let mut held: HashMap<String, bool> = HashMap::new();
        let mut orphaned = Vec::new();
        for (name, node) in self.view.all() {
            let Some(status) = node.status.as_ref().filter(|status| status.state == "Ready") else {
                continue;
            };
            if !held.contains_key(&status.server) {
                let there = self.hub.is_held(&server_lease(&status.server)).await?;
                held.insert(status.server.clone(), there);
            }
            if held.get(&status.server) == Some(&false) {
                orphaned.push((name.name, status.session_epoch));
            }
        }
        Ok(orphaned)
    }
}
