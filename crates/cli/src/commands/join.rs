//! `orrery join`: a certificate for a machine of any role.
use crate::args::JoinArguments;
use crate::output::print;
use crate::signals::StopSignals;
use anyhow::Context as _;
use orrery_client::identity::{Joiner, Member};
use orrery_pki::{Role, TlsFiles};
use orrery_server::{FollowedFiles, TlsPaths};
use std::path::Path;
use tokio_util::sync::CancellationToken;

pub async fn run(arguments: JoinArguments) -> anyhow::Result<()> {
    let role = arguments.role.role();
    let joiner = Joiner {
        server: arguments.server,
        token: arguments.token,
        role,
        name: arguments.name,
        files: TlsFiles::in_folder(&arguments.dir),
    };
    let member = joiner.must_join().await?;
    if role == Role::Proxy {
        let folder = std::path::absolute(&arguments.dir)
            .with_context(|| format!("find the folder {}", arguments.dir.display()))?;
        write_for_envoy(&joined_paths(&folder, String::new()))?;
    }
    let dir = arguments.dir.display();
    print::line(&format!(
        "--root {dir}/ca.pem --certificate {dir}/certificate.pem --key {dir}/key.pem"
    ))?;
    if arguments.renew { keep_renewed(member).await } else { Ok(()) }
}

/// Stays, and renews a certificate before it ends.
pub async fn keep_renewed(member: Member) -> anyhow::Result<()> {
    let mut signals = StopSignals::listen()?;
    tokio::select! {
        Ok(()) = member.renewal.run(CancellationToken::new()) => Ok(()),
        () = signals.next() => Ok(()),
    }
}

/// Where an Envoy finds what a proxy joined with in this folder, and finds it again when it was renewed.
pub fn joined_paths(folder: &Path, server_name: String) -> TlsPaths {
    TlsPaths {
        root: folder.join("ca.pem"),
        certificate: folder.join("certificate.pem"),
        key: folder.join("key.pem"),
        followed: Some(FollowedFiles::in_folder(folder)),
        server_name,
    }
}

/// Writes the files by which an Envoy notices that its certificate was renewed.
pub fn write_for_envoy(tls: &TlsPaths) -> anyhow::Result<()> {
    let Some(followed) = &tls.followed else { return Ok(()) };
    for (file, content) in followed.content(tls) {
        std::fs::write(file, format!("{content:#}\n"))
            .with_context(|| format!("write {}", file.display()))?;
    }
    Ok(())
}
