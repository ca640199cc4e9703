//! The server's own certificate, where files hold it.
use orrery_access::Authorities;
use orrery_pki::LiveTls;
use std::convert::Infallible;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How often the files are looked at, so that a mistake in them is told without a connection.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);

/// Reads changed files, and trusts the shared authority beside the root in them.
pub async fn follow(
    live: LiveTls,
    authorities: Authorities,
    stop: CancellationToken,
) -> Result<(), Infallible> {
    let mut authority = authorities.subscribe();
    loop {
        tokio::select! {
            () = stop.cancelled() => return Ok(()),
            changed = authority.changed() => {
                if changed.is_err() {
                    return Ok(());
                }
                trust(&live, &authorities);
            }
            () = tokio::time::sleep(LOOK_INTERVAL) => {}
        }
        match live.refresh() {
            Ok(false) => {}
            Ok(true) => tracing::info!("the certificate was read anew"),
            Err(error) => {
                tracing::error!(%error, "the changed certificate cannot be used, going on with the old one");
            }
        }
    }
}

/// Trusts the shared authority, as it is now.
pub fn trust(live: &LiveTls, authorities: &Authorities) {
    let Some(current) = authorities.current() else { return };
    let trusted = live.own().and_then(|own| live.trust_also(&own, current.roots_pem()));
    if let Err(error) = trusted {
        tracing::error!(%error, "the shared authority cannot be trusted");
    }
}
