//! `orrery version`.
use crate::args::{Global, VersionArguments};
use crate::connection::Target;
use crate::output::print;

pub async fn run(global: &Global, arguments: VersionArguments) -> anyhow::Result<()> {
    print::line(&format!("client: {}", orrery_client::VERSION))?;
    if arguments.client {
        return Ok(());
    }
    let server = Target::find(global, &arguments.connection)?.connect().await?;
    let server = server.discover().await?;
    print::line(&format!("server: {}", server.server_version))
}
