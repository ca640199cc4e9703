//! `orrery join`: a certificate for a machine of any role.
use crate::args::JoinArguments;
use crate::output::print;
use crate::signals::StopSignals;
use orrery_client::identity::Joiner;
use orrery_pki::TlsFiles;
use tokio_util::sync::CancellationToken;

pub async fn run(arguments: JoinArguments) -> anyhow::Result<()> {
    let joiner = Joiner {
        server: arguments.server,
        token: arguments.token,
        role: arguments.role.role(),
        name: arguments.name,
        files: TlsFiles::in_folder(&arguments.dir),
    };
    let member = joiner.must_join().await?;
    let dir = arguments.dir.display();
    print::line(&format!(
        "--root {dir}/ca.pem --certificate {dir}/certificate.pem --key {dir}/key.pem"
    ))?;
    if !arguments.renew {
        return Ok(());
    }
    let mut signals = StopSignals::listen()?;
    tokio::select! {
        Ok(()) = member.renewal.run(CancellationToken::new()) => Ok(()),
        () = signals.next() => Ok(()),
    }
}
