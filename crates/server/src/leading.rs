//! What one server of several does: its own lease, the leader's, and the controllers of a term.
use crate::gitsync::Roles;
use axum::BoxError;
use orrery_access::Access;
use orrery_fleet::agents::assignments::Assignments;
use orrery_gitsync::GitOptions;
use orrery_hub::Hub;
use orrery_machines::resources::Edge;
use orrery_mesh::hub::Mesh;
use orrery_runtime::{Leadership, OnEnd, Tasks, Term};
use orrery_volumes::ProxyConfig;
use prometheus_client::metrics::gauge::Gauge;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How much history is kept: a watcher that was away for minutes still goes on from where it was.
const HISTORY_REVISIONS: u64 = 10_000;
/// How often older history is forgotten; little at a time.
const TRIM_INTERVAL: Duration = Duration::from_secs(30);

/// How long the controllers of a leader may take to end.
const TERM_GRACE: Duration = Duration::from_secs(5);

/// What the controllers of every domain need of the server that runs them.
#[derive(Clone)]
pub struct Controllers {
    pub assignments: Arc<Assignments>,
    pub machines: Arc<Edge>,
    pub mesh: Arc<Mesh>,
    /// How storage controllers are called, where there is a registry of them.
    pub to_storage: Option<ProxyConfig>,
    pub git: GitOptions,
    /// Who may do what; git syncs ask it.
    pub access: Access,
    /// Whether this server leads, for all to see.
    pub leading: Gauge,
}

impl Controllers {
    /// Spawns this server's own lease, by which others know that it is there; and the leader's, while
    /// it has that, with the controllers. Its own lease says where the others reach it.
    pub fn spawn(self, hub: &Hub, server: &str, address: &str, tasks: &mut Tasks) {
        let candidate = |name: String, holder: &str| Leadership {
            hub: hub.clone(),
            name,
            holder: holder.to_owned(),
        };
        let stop = tasks.stop_token();
        let own = candidate(orrery_fleet::leader::server_lease(server), address);
        tasks.spawn("server-lease", OnEnd::StopAll, own.hold(stop.clone()));
        let term: Term = Box::new(move |hub, over| {
            let controllers = self.clone();
            Box::pin(async move { controllers.lead(&hub, over).await.map_err(|e| e.to_string()) })
        });
        let leader = candidate("leader".to_owned(), server).run(term, stop);
        tasks.spawn("leadership", OnEnd::StopAll, leader);
    }

    /// One term, from its beginning to its end.
    async fn lead(self, hub: &Hub, over: CancellationToken) -> Result<(), BoxError> {
        let mut tasks = Tasks::new(over);
        orrery_lifecycle::spawn(hub, &mut tasks)?;
        orrery_fleet::leader::spawn(hub, self.assignments, &mut tasks)?;
        orrery_machines::resources::spawn_leader(hub, &self.machines, &mut tasks)?;
        let lease_of = orrery_fleet::leader::server_lease;
        orrery_mesh::hub::leader::spawn(hub, self.mesh, lease_of, &mut tasks)?;
        orrery_volumes::spawn_leader(hub, self.to_storage, &mut tasks)?;
        orrery_clusters::spawn_leader(hub, &mut tasks)?;
        // Before roles are known, everything would be refused.
        let stop = tasks.stop_token();
        tokio::select! {
            () = stop.cancelled() => {}
            () = self.access.ready() => {}
        }
        let rights = Arc::new(Roles(self.access));
        orrery_gitsync::spawn_leader(hub, &self.git, rights, &mut tasks)?;
        tasks.spawn("history", OnEnd::Ignore, trim(hub.clone(), tasks.stop_token()));
        self.leading.set(1);
        let ended = tasks.run(TERM_GRACE).await;
        self.leading.set(0);
        Ok(ended?)
    }
}

/// Forgets old history, so that the store does not grow with every change.
async fn trim(hub: Hub, stop: CancellationToken) -> Result<(), std::convert::Infallible> {
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            () = tokio::time::sleep(TRIM_INTERVAL) => {}
        }
        if let Err(error) = hub.store().trim(HISTORY_REVISIONS).await {
            tracing::warn!(%error, "cannot forget old history, will try again");
        }
    }
}
