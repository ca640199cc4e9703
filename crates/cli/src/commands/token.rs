//! `orrery token`: letting machines join.
use crate::args::{Global, TokenArguments, TokenCommand, TokenCreate};
use crate::output::print;
use crate::session::{Session, Writing};
use anyhow::{Context as _, bail};
use orrery_client::identity;
use orrery_pki::{BearerToken, Fingerprint, JoinToken};
use orrery_proto::hub::v1::apply_request::Mode;
use serde_json::{Value, json};

pub async fn run(global: &Global, arguments: TokenArguments) -> anyhow::Result<()> {
    match arguments.command {
        TokenCommand::Create(arguments) => create(global, arguments).await,
    }
}

async fn create(global: &Global, arguments: TokenCreate) -> anyhow::Result<()> {
    let session = Session::open(global, &arguments.connection).await?;
    if let Some(user) = &arguments.user {
        return create_access(&session, &arguments, user).await;
    }
    let (Some(role), Some(name)) = (arguments.role, &arguments.name) else {
        bail!("say whom it is for: --role and --name, or --user");
    };
    let role = role.role();
    let trust = identity::trust(&session.target.endpoint()?).await?;
    if !trust.problem.is_empty() {
        bail!("nobody can join this server: {}", trust.problem);
    }
    let authority = Fingerprint::parse(&trust.authority)
        .context("read the fingerprint of the server's authority")?;
    let token = JoinToken::generate(id(name), authority);
    let mut spec = json!({
        "role": role.as_str(),
        "peer": name,
        "secretHash": token.hash().to_string(),
        "expiresAt": end(&arguments)?,
    });
    if let Some(uses) = arguments.uses {
        spec["uses"] = json!(uses);
    }
    let resource = resource(&session, "JoinToken", token.id(), spec);
    session.write(&resource, Mode::Create, Writing::default()).await?;
    print::note(&format!("for {role} {name}, good for {:?}; it is shown only now", arguments.ttl));
    print::line(&token.to_text())
}

async fn create_access(
    session: &Session,
    arguments: &TokenCreate,
    user: &str,
) -> anyhow::Result<()> {
    let token = BearerToken::generate(id(user));
    let spec = json!({
        "user": user,
        "groups": arguments.groups,
        "secretHash": token.hash().to_string(),
        "expiresAt": end(arguments)?,
    });
    let resource = resource(session, "AccessToken", token.id(), spec);
    session.write(&resource, Mode::Create, Writing::default()).await?;
    print::note(&format!("for user {user}, good for {:?}; it is shown only now", arguments.ttl));
    print::line(&token.to_text())
}

/// When it ends, in whole seconds, as every tool of this field prints them.
fn end(arguments: &TokenCreate) -> anyhow::Result<String> {
    let seconds = i64::try_from(arguments.ttl.as_secs()).context("--ttl is too long")?;
    let end = jiff::Timestamp::now().checked_add(jiff::SignedDuration::from_secs(seconds));
    let end = jiff::Timestamp::from_second(end.context("--ttl is too long")?.as_second());
    Ok(end.context("--ttl is too long")?.to_string())
}

fn resource(session: &Session, kind: &str, name: &str, spec: Value) -> Value {
    json!({
        "apiVersion": format!("core.{}/v1", session.known.group_suffix),
        "kind": kind,
        "metadata": { "name": name },
        "spec": spec,
    })
}

/// A name that says whom it is for and is taken by nobody.
fn id(pattern: &str) -> String {
    let readable: String = pattern
        .chars()
        .filter(|c| c.is_ascii_alphanumeric() || *c == '-')
        .map(|c| c.to_ascii_lowercase())
        .take(40)
        .collect();
    let readable = readable.trim_matches('-');
    let unique = uuid::Uuid::new_v4().simple().to_string();
    let unique = &unique[..8];
    if readable.is_empty() { format!("join-{unique}") } else { format!("{readable}-{unique}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_names() {
        for (pattern, start) in
            [("edge-*", "edge-"), ("*", "join-"), ("A.b", "ab-"), ("--", "join-")]
        {
            let made = id(pattern);
            assert!(made.starts_with(start) && made.len() <= 63, "{made}");
            assert_ne!(id(pattern), made);
        }
    }
}
