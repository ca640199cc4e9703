//! `orrery auth`: who am I, and what may I do.
use crate::args::{AuthArguments, AuthCommand, CanI, Global, WhoAmI};
use crate::connection::Target;
use crate::output::table::plain_lines;
use crate::output::{print, style};
use orrery_client::identity;
use orrery_proto::identity::v1::{CanIRequest, Permission};

/// Parts of resources; anything else behind a slash is the name of an object.
const PARTS: [&str; 4] = ["status", "log", "exec", "artifacts"];

pub async fn run(global: &Global, arguments: AuthArguments) -> anyhow::Result<()> {
    match arguments.command {
        AuthCommand::Whoami(arguments) => who_am_i(global, &arguments).await,
        AuthCommand::CanI(arguments) => can_i(global, arguments).await,
    }
}

async fn who_am_i(global: &Global, arguments: &WhoAmI) -> anyhow::Result<()> {
    let target = Target::find(global, &arguments.connection)?;
    let me = identity::who_am_i(&target.endpoint()?).await?;
    let rows = [
        vec!["name".to_owned(), me.name],
        vec!["groups".to_owned(), me.groups.join(", ")],
        vec!["known by".to_owned(), me.known_by],
    ];
    print::lines(&plain_lines(&rows, style::stdout()))
}

async fn can_i(global: &Global, arguments: CanI) -> anyhow::Result<()> {
    let target = Target::find(global, &arguments.connection)?;
    let project = match arguments.all_projects {
        true => String::new(),
        false => target.project(arguments.project.as_deref()),
    };
    let endpoint = target.endpoint()?;
    if arguments.list {
        let asked = CanIRequest { project, ..CanIRequest::default() };
        return list(&identity::can_i(&endpoint, asked).await?.permissions);
    }
    let (resource, part, name) = split(arguments.resource.as_deref().unwrap_or_default());
    let asked = CanIRequest {
        verb: arguments.verb.unwrap_or_default(),
        resource: resource.to_owned(),
        subresource: arguments.subresource.unwrap_or_else(|| part.to_owned()),
        project,
        name: name.to_owned(),
    };
    let answer = identity::can_i(&endpoint, asked).await?;
    if answer.allowed {
        return print::line(&format!("yes - {}", answer.reason));
    }
    print::line(&format!("no - {}", answer.reason))?;
    Err(crate::exit::Differences.into())
}

/// A resource, its part, and the name of one object.
fn split(text: &str) -> (&str, &str, &str) {
    match text.split_once('/') {
        None => (text, "", ""),
        Some((resource, part)) if PARTS.contains(&part) => (resource, part, ""),
        Some((resource, name)) => (resource, "", name),
    }
}

fn list(permissions: &[Permission]) -> anyhow::Result<()> {
    let words = |words: &[String]| match words {
        [] => "*".to_owned(),
        words => words.join(","),
    };
    let mut rows = vec![["RESOURCES", "GROUPS", "NAMES", "VERBS"].map(str::to_owned).to_vec()];
    rows.extend(permissions.iter().map(|permission| {
        let Permission { verbs, groups, resources, names } = permission;
        vec![words(resources), words(groups), words(names), words(verbs)]
    }));
    print::lines(&plain_lines(&rows, style::stdout()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stands_behind_the_slash() {
        assert_eq!(split("workloads"), ("workloads", "", ""));
        assert_eq!(split("workloads/log"), ("workloads", "log", ""));
        assert_eq!(split("secret/db"), ("secret", "", "db"));
    }
}
