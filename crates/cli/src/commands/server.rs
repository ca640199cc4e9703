//! `orrery server`.
use super::operations;
use crate::args::{ServerArguments, StoreArguments};
use crate::identity;
use crate::paths;
use crate::signals::StopSignals;
use anyhow::{Context as _, ensure};
use orrery_runtime::Tasks;
use orrery_server::{
    Credentials, EtcdOptions, EtcdTls, Listen, Proofs, Reread, Server, ServerOptions, StoreOptions,
};
use std::path::Path;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long everything may take to end after a signal.
pub const STOP_GRACE: Duration = Duration::from_secs(10);

pub async fn run(arguments: ServerArguments) -> anyhow::Result<()> {
    let mut signals = StopSignals::listen()?;
    let data = paths::data(arguments.data_dir)?;
    let store = store(&arguments.store, &data)?;
    let options = ServerOptions {
        listen: arguments.listen,
        operations: operations::read(arguments.operations, &store, &data)?,
        drivers: arguments.drivers_listen.unwrap_or(Listen::Beside { needed: false }),
        store,
        tls: arguments.tls.files(),
        allow_plain: arguments.allow_plain,
        advertise: arguments.advertise,
        group_suffix: arguments.group_suffix,
        identity: arguments.identity.options(),
        mesh: arguments.mesh.settings(),
        storage: arguments.storage.storage_listen.unwrap_or(Listen::Beside { needed: true }),
    };
    let server = Server::open(options).await?;
    let address = server.address()?;
    if let Some(drivers) = server.drivers_address() {
        tracing::info!("machine drivers register at {drivers}");
    }
    let scheme = server.scheme_name();
    if arguments.identity.tls {
        let admin = identity::admin(server.identities(), &data)?;
        let certificate = admin.certificate.unwrap_or_default();
        tracing::info!(certificate = %certificate.display(), "an administrator's certificate is kept here");
    }
    let stop = CancellationToken::new();
    let mut tasks = Tasks::new(stop.clone());
    if arguments.identity.tls {
        identity::spawn_keeping(server.identities(), &data, None, &mut tasks);
    }
    server.spawn(&mut tasks)?;
    tracing::info!(data = %data.display(), "serving on {scheme}://{address}");
    let running = tasks.run(STOP_GRACE);
    tokio::pin!(running);
    tokio::select! {
        outcome = &mut running => return Ok(outcome?),
        () = signals.next() => tracing::info!("stopping"),
    }
    stop.cancel();
    Ok(running.await?)
}

/// The store that was asked for: etcd, or a folder.
fn store(arguments: &StoreArguments, data: &Path) -> anyhow::Result<StoreOptions> {
    let Some(url) = &arguments.store else {
        return Ok(StoreOptions::Embedded(data.join("store")));
    };
    let mut options = EtcdOptions::from_url(url)?;
    let Proofs { user, tls } = proofs(arguments)?;
    if user.is_some() || tls.is_some() {
        let arguments = arguments.clone();
        let again = move || proofs(&arguments).map_err(|error| format!("{error:#}"));
        options.reread = Some(Reread::new(again));
    }
    Ok(StoreOptions::Etcd(EtcdOptions { user, tls, ..options }))
}

/// What etcd is shown, as the files have it now.
fn proofs(arguments: &StoreArguments) -> anyhow::Result<Proofs> {
    let read = |path: &Path| {
        std::fs::read(path).with_context(|| format!("read the PEM file {}", path.display()))
    };
    let mut proofs = Proofs { user: None, tls: None };
    if let Some(root) = &arguments.etcd_root {
        let authority = read(root)?;
        let begins = |line: &[u8]| line.starts_with(b"-----BEGIN CERTIFICATE-----");
        let has_some = authority.split(|byte| *byte == b'\n').any(begins);
        ensure!(has_some, "there is no certificate in {}, which --etcd-root names", root.display());
        let identity = match (&arguments.etcd_certificate, &arguments.etcd_key) {
            (Some(certificate), Some(key)) => Some((read(certificate)?, read(key)?)),
            (_, _) => None,
        };
        proofs.tls = Some(EtcdTls { authority, identity, domain: None });
    }
    if let (Some(name), Some(file)) = (&arguments.etcd_user, &arguments.etcd_password_file) {
        let password = std::fs::read_to_string(file)
            .with_context(|| format!("read the password file {}", file.display()))?;
        let password = password.trim_end_matches('\n').to_owned();
        proofs.user = Some(Credentials { name: name.clone(), password });
    }
    Ok(proofs)
}
