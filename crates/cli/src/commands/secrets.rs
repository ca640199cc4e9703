//! `orrery secrets`.
use crate::args::{Global, SecretsArguments, SecretsCommand};
use crate::connection::Target;
use crate::output::print;
use crate::output::style;
use crate::output::table::plain_lines;
use orrery_proto::hub::v1::SealingStatus;

pub async fn run(global: &Global, arguments: SecretsArguments) -> anyhow::Result<()> {
    match arguments.command {
        SecretsCommand::RotateKey { to_key, connection } => {
            let server = Target::find(global, &connection)?.connect().await?;
            let done = server.rotate_key(to_key.unwrap_or_default()).await?;
            let (new, old, count) = (done.key, done.previous, done.resealed);
            let objects = if count == 1 { "object" } else { "objects" };
            print::line(&format!(
                "sealing with key {new} instead of {old}; {count} {objects} sealed again"
            ))?;
            print::line("Older keys stay in the key file: backups from before need them.")
        }
        SecretsCommand::Status { connection } => {
            let server = Target::find(global, &connection)?.connect().await?;
            print::lines(&lines(&server.sealing_status().await?))
        }
    }
}

fn lines(status: &SealingStatus) -> Vec<String> {
    if status.key.is_empty() {
        return vec!["This server has no encryption key, and keeps nothing secret.".to_owned()];
    }
    let mut rows = vec![["KEY", "SEALS", "OBJECTS", "SERVERS"].map(str::to_owned).to_vec()];
    for key in &status.keys {
        let holders = status.servers.iter().filter(|server| server.keys.contains(&key.id)).count();
        let seals = if key.id == status.key { "yes" } else { "no" };
        rows.push(vec![
            key.id.clone(),
            seals.to_owned(),
            key.objects.to_string(),
            format!("{holders}/{}", status.servers.len()),
        ]);
    }
    let mut lines = plain_lines(&rows, style::stdout());
    if 0 < status.plain {
        lines.push(format!(
            "{} objects are not sealed yet: run orrery secrets rotate-key",
            status.plain
        ));
    }
    lines
}
