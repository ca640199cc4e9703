//! Speaking for the drivers that are connected here: one lease for each kind of them.
use super::driver_objects::Held;
use super::joining::Authority;
use super::machines::{MachineReconciler, Machines};
use super::orphans::Orphans;
use super::refs::lease_name;
use super::views::Views;
use crate::controller::Provider;
use crate::controller::orphans::OrphanTiming;
use crate::drivers::{DriverKey, DriverState, Drivers};
use orrery_hub::Hub;
use orrery_runtime::{Controller, Leadership, OnEnd, Tasks, Term};
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

/// Machines that are worked on at once. They mostly wait for their driver, which says itself how many
/// operations it takes.
const AT_ONCE: usize = 2048;
/// How long operations may take to end after the lease: their outcome is then open, and looked up by
/// whoever comes next.
const TERM_GRACE: Duration = Duration::from_secs(2);

/// What speaking for drivers takes.
#[derive(Clone)]
pub struct Speaker {
    pub hub: Hub,
    pub drivers: Drivers,
    pub views: Arc<Views>,
    pub held: Arc<Held>,
    pub server: String,
    pub authority: Authority,
    pub orphans: OrphanTiming,
}

impl Speaker {
    /// Is a candidate for each kind of driver for as long as one of it is connected.
    pub async fn run(self, stop: CancellationToken) -> Result<(), std::convert::Infallible> {
        let mut infos = self.drivers.watch();
        let mut candidates: HashMap<DriverKey, CancellationToken> = HashMap::new();
        let mut running = JoinSet::new();
        loop {
            let connected: BTreeSet<DriverKey> = infos
                .borrow_and_update()
                .iter()
                .filter(|info| !matches!(info.state, DriverState::Gone(_)))
                .map(|info| info.hello.key.clone())
                .collect();
            candidates.retain(|key, token| {
                let stays = connected.contains(key);
                if !stays {
                    token.cancel();
                }
                stays
            });
            for key in connected {
                candidates.entry(key.clone()).or_insert_with(|| {
                    let token = stop.child_token();
                    running.spawn(self.clone().candidate(key, token.clone()));
                    token
                });
            }
            tokio::select! {
                () = stop.cancelled() => break,
                changed = infos.changed() => {
                    if changed.is_err() {
                        break;
                    }
                }
                Some(_) = running.join_next() => {}
            }
        }
        while running.join_next().await.is_some() {}
        Ok(())
    }

    async fn candidate(self, key: DriverKey, stop: CancellationToken) {
        let (hub, holder) = (self.hub.clone(), self.server.clone());
        let leadership = Leadership { hub, name: lease_name(&key), holder };
        let term: Term = Box::new(move |hub, over| {
            let (speaker, key) = (self.clone(), key.clone());
            Box::pin(async move { speaker.term(&hub, key, over).await })
        });
        if let Err(error) = leadership.run(term, stop).await {
            tracing::error!(%error, "cannot speak for drivers any more");
        }
    }

    /// One term: everything that is written is fenced by the lease.
    async fn term(self, hub: &Hub, key: DriverKey, over: CancellationToken) -> Result<(), String> {
        let failed = |error: orrery_hub::Error| error.to_string();
        let provider: Arc<dyn Provider> = Arc::new(self.drivers.clone());
        let machines =
            Machines::new(hub, self.views.clone(), self.authority.clone()).map_err(failed)?;
        let reconciler = MachineReconciler::served(machines, provider.clone());
        let controller = Controller::new("machines", reconciler).at_once(AT_ONCE);
        let queue = controller.queue();
        let _listening = self.views.listeners.listen(Some(key.clone()), queue.clone());
        for (name, machine) in self.views.machines.all() {
            if self.views.key_of(&name.project, &machine).as_ref() == Some(&key) {
                queue.add(name);
            }
        }
        let orphans = Orphans::new(hub, self.views.clone(), key.clone(), self.orphans);
        let orphans = orphans.map_err(failed)?;
        let _holding = self.held.take(key);
        let mut tasks = Tasks::new(over);
        let stop = tasks.stop_token();
        tasks.spawn("machine-controller", OnEnd::StopAll, controller.run(stop.clone()));
        tasks.spawn("machine-orphans", OnEnd::StopAll, orphans.run(provider, stop));
        match tasks.run(TERM_GRACE).await {
            // An operation that a driver has not answered yet is no trouble: its outcome is looked up.
            Ok(()) | Err(orrery_runtime::TaskError::Stuck { .. }) => Ok(()),
            Err(error) => Err(error.to_string()),
        }
    }
}
