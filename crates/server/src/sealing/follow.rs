//! Every server follows what is agreed: it learns keys that are introduced, says which ones it holds,
//! and seals with the one that is agreed on.
use super::places::{ALL, Agreement, LEASES, SERVERS, words};
use super::{Error, Sealer};
use futures::StreamExt as _;
use orrery_store::{Engine, Expect, Op};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Something is looked at again after this long even if nothing was heard.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// The pause after the store did not answer.
const PAUSE: Duration = Duration::from_secs(1);

/// Runs until it is told to stop. `server` is this server's id.
pub async fn follow(
    engine: Arc<dyn Engine>,
    sealer: Arc<Sealer>,
    server: String,
    stop: CancellationToken,
) -> Result<(), std::convert::Infallible> {
    if let Err(error) = forget_the_gone(&*engine, &server).await {
        tracing::debug!(%error, "cannot forget servers that are gone");
    }
    while !stop.is_cancelled() {
        let looked = async {
            match look(&*engine, &sealer, &server).await {
                Ok(agreement) => changed(&*engine, &agreement).await,
                Err(error) => {
                    tracing::warn!(%error, "cannot follow which encryption key is agreed on");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        };
        stop.run_until_cancelled(looked).await;
    }
    Ok(())
}

/// Looks once, does what follows from it, and says which keys are held here.
async fn look(engine: &dyn Engine, sealer: &Sealer, server: &str) -> Result<Agreement, Error> {
    let agreement = Agreement::read(engine).await?;
    let Some(ring) = sealer.ring() else { return Ok(agreement) };
    match agreement.settle(&ring) {
        Some(settled) if settled.ids().ne(ring.ids()) => {
            sealer.replace(settled)?;
            tracing::info!(key = %sealer.ring().map(|r| r.current().to_string()).unwrap_or_default(), "encryption keys changed");
        }
        Some(_) => {}
        None => {
            // Nothing that is written from now on can be read here; a person must look.
            let key = agreement.used.map(|(used, _)| used.to_string()).unwrap_or_default();
            tracing::error!(key, "the other servers seal with a key that this one does not hold");
        }
    }
    let held: Vec<_> = sealer.ring().iter().flat_map(orrery_seal::Keyring::ids).collect();
    let said = agreement.servers.get(server);
    if said.is_none_or(|(ids, _)| *ids != held) {
        let expect = said.map_or(Expect::Absent, |(_, at)| Expect::At(*at));
        let key = format!("{SERVERS}{server}");
        engine.commit(vec![Op::put(key, words(held), expect)]).await?;
    }
    Ok(agreement)
}

/// Returns when something changed since, or after a while.
async fn changed(engine: &dyn Engine, since: &Agreement) {
    let Ok(mut watch) = engine.watch(ALL, since.revision).await else {
        return tokio::time::sleep(PAUSE).await;
    };
    let something = async {
        while let Some(Ok(batch)) = watch.next().await {
            if !batch.is_bookmark() {
                return;
            }
        }
        tokio::time::sleep(PAUSE).await;
    };
    // Whichever comes first.
    let _ = tokio::time::timeout(LOOK_AGAIN, something).await;
}

/// Forgets what servers said that have no lease any more. One that is only just starting says it
/// again.
pub(super) async fn forget_the_gone(
    engine: &dyn Engine,
    this: &str,
) -> Result<(), orrery_store::Error> {
    let agreement = Agreement::read(engine).await?;
    for (server, (_, at)) in agreement.servers {
        if server == this || engine.get(&format!("{LEASES}{server}")).await?.is_some() {
            continue;
        }
        match engine.commit(vec![Op::delete(format!("{SERVERS}{server}"), at)]).await {
            Ok(_) | Err(orrery_store::Error::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
