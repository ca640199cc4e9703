//! What is said of a cluster as a whole: pure.
use super::State;
use crate::names::meta;
use crate::plan::providers;
use orrery_proto::infra::v1::{AddonProgress, Cluster, ClusterStatus, PoolStatus};
use orrery_proto::meta::v1::Condition;
use orrery_runtime::conditions;
use prost_types::Timestamp;

/// What is known of the parts of a cluster.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parts {
    pub pools: Vec<PoolStatus>,
    pub addons: Vec<AddonProgress>,
    /// Why it is not known which addons there should be.
    pub obstacle: Option<Obstacle>,
}

/// What stands in the way of all addons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// One word, in CamelCase.
    pub reason: &'static str,
    pub message: String,
}

/// One aspect of a cluster.
struct Aspect {
    holds: bool,
    reason: &'static str,
    message: String,
}

/// Sums up.
pub fn summarize(cluster: &Cluster, parts: Parts, now: Timestamp) -> ClusterStatus {
    let spec = cluster.spec.clone().unwrap_or_default();
    let before = cluster.status.clone().unwrap_or_default();
    let machines = of_machines(&parts.pools);
    let addons = of_addons(&parts, spec.blueprint.is_some());
    let failing = parts.obstacle.is_some()
        || parts.pools.iter().any(|pool| is(&pool.state, State::Failing))
        || parts.addons.iter().any(|addon| is(&addon.state, State::Failing));
    let (state, ready) = match (machines.holds && addons.holds, failing) {
        (true, _) => (State::Ready, Aspect::good("Ready", String::new())),
        (false, true) => (State::Failing, machines.worse(&addons)),
        (false, false) => (State::Progressing, machines.worse(&addons)),
    };
    let (machines_ready, machines_wanted) = count_machines(&parts.pools);
    let wanted = parts.addons.iter().filter(|addon| !is(&addon.state, State::Removing)).count();
    let good = parts.addons.iter().filter(|addon| is(&addon.state, State::Ready)).count();
    let generation = meta(&cluster.metadata).generation;
    let mut status = ClusterStatus {
        state: state.as_str().to_owned(),
        message: ready.message.clone(),
        provider: providers::provider(&spec).to_owned(),
        machines: format!("{machines_ready}/{machines_wanted}"),
        addons_ready: format!("{good}/{wanted}"),
        progress: percent(machines_ready + as_i64(good), machines_wanted + as_i64(wanted)),
        pools: parts.pools,
        addons: parts.addons,
        observed_generation: generation,
        conditions: before.conditions,
    };
    for (kind, aspect) in [("Ready", ready), ("MachinesReady", machines), ("AddonsReady", addons)] {
        conditions::set(&mut status.conditions, aspect.condition(kind, generation), now);
    }
    status
}

/// What is said of a cluster that goes; `left` tells in words what it waits for.
pub fn leaving(cluster: &Cluster, parts: Parts, left: &str, now: Timestamp) -> ClusterStatus {
    let before = cluster.status.clone().unwrap_or_default();
    let generation = meta(&cluster.metadata).generation;
    let mut status = ClusterStatus {
        state: "Deleting".to_owned(),
        message: left.to_owned(),
        pools: parts.pools,
        addons: parts.addons,
        observed_generation: generation,
        ..before
    };
    let aspect = Aspect { holds: false, reason: "Deleting", message: left.to_owned() };
    conditions::set(&mut status.conditions, aspect.condition("Ready", generation), now);
    status
}

impl Aspect {
    fn good(reason: &'static str, message: String) -> Self {
        Self { holds: true, reason, message }
    }

    fn bad(reason: &'static str, message: String) -> Self {
        Self { holds: false, reason, message }
    }

    /// What the whole waits for: machines before addons, but what is broken before what takes its time.
    fn worse(&self, addons: &Self) -> Self {
        let broken = |aspect: &Self| !aspect.holds && aspect.reason != PROGRESSING;
        let one = match (self.holds, broken(self), broken(addons)) {
            (true, _, _) | (false, false, true) => addons,
            (false, _, _) => self,
        };
        Self { holds: false, reason: one.reason, message: one.message.clone() }
    }

    fn condition(self, kind: &str, generation: i64) -> Condition {
        Condition {
            r#type: kind.to_owned(),
            status: if self.holds { "True" } else { "False" }.to_owned(),
            reason: self.reason.to_owned(),
            message: self.message,
            last_transition_time: None,
            observed_generation: generation,
        }
    }
}

const PROGRESSING: &str = "Progressing";

fn of_machines(pools: &[PoolStatus]) -> Aspect {
    let (ready, wanted) = count_machines(pools);
    let worst = pools.iter().find(|pool| is(&pool.state, State::Failing));
    let worst = worst.or_else(|| pools.iter().find(|pool| !is(&pool.state, State::Ready)));
    match worst {
        None => Aspect::good("Ready", format!("{ready} of {wanted} machines are as asked for")),
        Some(pool) => {
            let reason = if is(&pool.state, State::Failing) { "Failing" } else { PROGRESSING };
            Aspect::bad(reason, format!("pool {:?}: {}", pool.name, pool.message))
        }
    }
}

fn of_addons(parts: &Parts, asked_for: bool) -> Aspect {
    if let Some(obstacle) = &parts.obstacle {
        return Aspect::bad(obstacle.reason, obstacle.message.clone());
    }
    let failing = parts.addons.iter().find(|addon| is(&addon.state, State::Failing));
    // Of those that wait, the first is the one that the others wait for.
    let open = parts.addons.iter().find(|addon| !is(&addon.state, State::Ready));
    match (failing, open) {
        (Some(addon), _) => Aspect::bad("Failing", told(addon)),
        (None, Some(addon)) => Aspect::bad(PROGRESSING, told(addon)),
        (None, None) if !asked_for => {
            Aspect::good("NoBlueprint", "the cluster names no blueprint".to_owned())
        }
        (None, None) => Aspect::good("Ready", format!("{} addons are ready", parts.addons.len())),
    }
}

fn told(addon: &AddonProgress) -> String {
    let message =
        if addon.message.is_empty() { "it is on its way" } else { addon.message.as_str() };
    format!("addon {:?}: {message}", addon.name)
}

fn is(said: &str, state: State) -> bool {
    said == state.as_str()
}

fn count_machines(pools: &[PoolStatus]) -> (i64, i64) {
    let sum = |of: fn(&PoolStatus) -> i32| pools.iter().map(|pool| i64::from(of(pool))).sum();
    (sum(|pool| pool.ready), sum(|pool| pool.wanted))
}

fn as_i64(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Rounded down, so that a hundred means all.
fn percent(done: i64, all: i64) -> i32 {
    match all {
        0 => 100,
        all => i32::try_from(done * 100 / all).unwrap_or(100),
    }
}

#[cfg(test)]
mod tests;
