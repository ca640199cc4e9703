//! `orrery join`: a certificate for a machine of any role.
use crate::args::JoinArguments;
use crate::output::print;
use crate::signals::StopSignals;
use anyhow::Context as _;
use orrery_client::Endpoint;
use orrery_client::identity::{Renewal, join};
use orrery_pki::{JoinToken, LiveTls, Role, TlsFiles};
use orrery_server::{FollowedFiles, TlsPaths};
use std::path::Path;
use tokio_util::sync::CancellationToken;

pub async fn run(arguments: JoinArguments) -> anyhow::Result<()> {
    let files = TlsFiles::in_folder(&arguments.dir);
    let joined = files.certificate.as_deref().is_some_and(Path::exists);
    if !joined {
        let token = arguments.token.as_deref().context("give --token: nothing has joined yet")?;
        let token: JoinToken = token.parse()?;
        let role = arguments.role.role();
        join(&arguments.server, &token, role, &arguments.name, &arguments.dir).await?;
    }
    if arguments.role.role() == Role::Proxy {
        write_for_envoy(&arguments.dir)?;
    }
    let dir = arguments.dir.display();
    print::line(&format!(
        "--root {dir}/ca.pem --certificate {dir}/certificate.pem --key {dir}/key.pem"
    ))?;
    if !arguments.renew {
        return Ok(());
    }
    let mut signals = StopSignals::listen()?;
    let live = LiveTls::from_files(&files)?.context("read the certificate joined with")?;
    let endpoint = Endpoint::live(&arguments.server, Some(live.clone()))?;
    let stop = CancellationToken::new();
    let renewing = Renewal::new(endpoint, files, live).run(stop);
    tokio::select! {
        Ok(()) = renewing => Ok(()),
        () = signals.next() => Ok(()),
    }
}

/// Files by which an Envoy finds the certificate, and finds it again when it was renewed.
fn write_for_envoy(folder: &Path) -> anyhow::Result<()> {
    let folder = std::path::absolute(folder)
        .with_context(|| format!("find the folder {}", folder.display()))?;
    let tls = TlsPaths {
        root: folder.join("ca.pem"),
        certificate: folder.join("certificate.pem"),
        key: folder.join("key.pem"),
        followed: None,
        server_name: String::new(),
    };
    for (file, content) in FollowedFiles::in_folder(&folder).content(&tls) {
        std::fs::write(file, format!("{content:#}\n"))
            .with_context(|| format!("write {}", file.display()))?;
    }
    Ok(())
}
