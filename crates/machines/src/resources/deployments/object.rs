//! What a deployment wants and what it says of itself: pure.
use super::short_hash;
use crate::plan::Reason;
use crate::plan::deployment::Progress;
use orrery_proto::infra::v1::{
    MachineClassSpec, MachineDeployment, MachineDeploymentStatus, MachineTemplate,
};
use orrery_proto::meta::v1::Condition;
use orrery_runtime::conditions;
use prost_types::Timestamp;
use std::collections::BTreeMap;

/// Enough to tell the revisions of one deployment apart.
const HASH_DIGITS: usize = 8;

/// What the machines should be made from.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    pub hash: String,
    pub class_revision: i64,
    pub snapshot: MachineClassSpec,
    /// The deployment names the revision, instead of following its class.
    pub pinned: bool,
}

/// Differs if and only if machines have to be exchanged.
pub fn hash_of(class_uid: &str, class_revision: i64, template: &MachineTemplate) -> String {
    let labels: BTreeMap<&String, &String> = template.labels.iter().collect();
    let labels: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let revision = class_revision.to_string();
    short_hash(&[template.class(), class_uid, &revision, &labels.join(",")], HASH_DIGITS)
}

pub fn status_of(
    deployment: &MachineDeployment,
    progress: Progress,
    wanted: &Result<Wanted, Reason>,
    frozen: bool,
    now: Timestamp,
) -> MachineDeploymentStatus {
    let spec = deployment.spec.clone().unwrap_or_default();
    let mut status = deployment.status.clone().unwrap_or_default();
    let metadata = deployment.metadata.clone().unwrap_or_default();
    let state = match wanted {
        Err(_) => "Failing",
        Ok(_) if frozen => "Frozen",
        Ok(_) if progress.complete => "Complete",
        Ok(_) if spec.paused() => "Paused",
        Ok(_) => "Progressing",
    };
    state.clone_into(&mut status.state);
    status.observed_generation = metadata.generation;
    if let Ok(wanted) = wanted {
        let count = |number: u32| i32::try_from(number).unwrap_or(i32::MAX);
        status.machines = count(progress.existing);
        status.updated = count(progress.updated);
        status.available = count(progress.available);
        status.revision = wanted.class_revision;
    }
    let said = [
        class_found(wanted),
        following(wanted),
        condition("Complete", progress.complete && wanted.is_ok(), state, {
            let (available, wanted) = (progress.available, spec.replicas());
            format!("{available} of {wanted} machines are available")
        }),
    ];
    for mut one in said {
        one.observed_generation = metadata.generation;
        conditions::set(&mut status.conditions, one, now);
    }
    status
}

fn class_found(wanted: &Result<Wanted, Reason>) -> Condition {
    match wanted {
        Ok(_) => condition("ClassFound", true, "Found", String::new()),
        Err(reason) => condition("ClassFound", false, reason.code, reason.message.clone()),
    }
}

fn following(wanted: &Result<Wanted, Reason>) -> Condition {
    match wanted {
        Ok(Wanted { pinned: true, class_revision, .. }) => {
            let text = format!(
                "machines are of revision {class_revision} of their class; remove spec.template.classRevision to follow it"
            );
            condition("Following", false, "Pinned", text)
        }
        Ok(_) | Err(_) => condition("Following", true, "Latest", String::new()),
    }
}

fn condition(r#type: &str, holds: bool, reason: &str, message: String) -> Condition {
    Condition {
        r#type: r#type.to_owned(),
        status: if holds { "True" } else { "False" }.to_owned(),
        reason: reason.to_owned(),
        message,
        ..Condition::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mk_template(class: &str, label: &str) -> MachineTemplate {
        MachineTemplate {
            class: Some(class.into()),
            labels: [("pool".to_owned(), label.to_owned())].into(),
            ..MachineTemplate::default()
        }
    }

    #[test]
    fn only_what_machines_are_made_from_is_hashed() {
        let base = hash_of("u", 1, &mk_template("small", "a"));
        let mut timeouts = mk_template("small", "a");
        timeouts.timeouts = Some(<_>::default());
        timeouts.keep_failed = Some(true);
        assert_eq!(hash_of("u", 1, &timeouts), base, "time-outs replace nothing");
        for other in [
            hash_of("u", 2, &mk_template("small", "a")),
            hash_of("v", 1, &mk_template("small", "a")),
            hash_of("u", 1, &mk_template("large", "a")),
            hash_of("u", 1, &mk_template("small", "b")),
        ] {
            assert_ne!(other, base);
        }
    }
}
