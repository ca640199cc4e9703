//! Tells drivers which classes and secrets changed, so that what they cached is read again.
use super::Inner;
use super::session::Session;
use super::source::{ClassChanged, SecretChanged};
use super::wire;
use orrery_proto::infragrpc::mc_mside::Change;
use std::sync::Arc;
use tokio::sync::broadcast::error::RecvError;

pub(super) async fn run(drivers: Arc<Inner>) {
    let mut classes = drivers.classes.changes();
    let mut secrets = drivers.secrets.changes();
    loop {
        let going_on = tokio::select! {
            () = drivers.stop.cancelled() => false,
            changed = classes.recv() => class_changed(&drivers, changed),
            changed = secrets.recv() => secret_changed(&drivers, changed).await,
        };
        if !going_on {
            return;
        }
    }
}

/// Returns whether there can be more.
fn class_changed(drivers: &Inner, changed: Result<ClassChanged, RecvError>) -> bool {
    match changed {
        Ok(changed) => {
            let machine_class = Some(wire::class_meta(&changed.path, changed.revision));
            let change = Change { machine_class, secret: None };
            each(drivers, |session| session.hello.key == changed.key, &change);
        }
        Err(RecvError::Lagged(_)) => each(drivers, |_| true, &Change::default()),
        Err(RecvError::Closed) => return false,
    }
    true
}

async fn secret_changed(drivers: &Inner, changed: Result<SecretChanged, RecvError>) -> bool {
    match changed {
        Ok(SecretChanged { secret, revision }) => {
            let mut meta = wire::secret_meta(&secret);
            meta.revision = wire::narrow(revision);
            let change = Change { machine_class: None, secret: Some(meta) };
            for session in drivers.sessions() {
                // The name of a secret is for those who may read it. If that cannot be told now,
                // "something changed" is always true enough.
                match drivers.classes.names_secret(&session.hello.key, &secret).await {
                    Ok(true) => session.announce(change.clone()),
                    Ok(false) => {}
                    Err(_) => session.announce(Change::default()),
                }
            }
        }
        Err(RecvError::Lagged(_)) => each(drivers, |_| true, &Change::default()),
        Err(RecvError::Closed) => return false,
    }
    true
}

fn each(drivers: &Inner, wanted: impl Fn(&Session) -> bool, change: &Change) {
    for session in drivers.sessions() {
        if wanted(&session) {
            session.announce(change.clone());
        }
    }
}
