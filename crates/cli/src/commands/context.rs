//! `orrery context`: which servers there are, and how to reach them.
use crate::args::{ContextArguments, ContextCommand, ContextSet, Global};
use crate::output::table::plain_lines;
use crate::output::{print, style};
use crate::paths;
use anyhow::{Context as _, bail};
use orrery_client::context::{Context, Contexts};

pub fn run(global: &Global, arguments: ContextArguments) -> anyhow::Result<()> {
    let path = paths::config(global.config.clone())?;
    let mut contexts = Contexts::load(&path)?;
    match arguments.command {
        ContextCommand::List => list(&contexts),
        ContextCommand::Show { name } => {
            let name = name.or_else(|| global.context.clone());
            show(&contexts, name.as_deref())
        }
        ContextCommand::Use { name } => {
            contexts.find(Some(&name))?;
            contexts.current = Some(name.clone());
            contexts.save(&path)?;
            print::line(&format!("context {name} is used from now on"))
        }
        ContextCommand::Set(set) => {
            let name = set.name.clone();
            contexts.put(changed(&contexts, set)?);
            contexts.current.get_or_insert_with(|| name.clone());
            contexts.save(&path)?;
            print::line(&format!("context {name} set"))
        }
        ContextCommand::Delete { name } => {
            contexts.find(Some(&name))?;
            contexts.contexts.retain(|context| context.name != name);
            if contexts.current.as_deref() == Some(&name) {
                contexts.current = None;
            }
            contexts.save(&path)?;
            print::line(&format!("context {name} deleted"))
        }
    }
}

fn list(contexts: &Contexts) -> anyhow::Result<()> {
    if contexts.contexts.is_empty() {
        print::note("no contexts; orrery up makes one, and so does orrery context set");
        return Ok(());
    }
    let mut rows = vec![["CURRENT", "NAME", "SERVER", "PROJECT"].map(str::to_owned).to_vec()];
    rows.extend(contexts.contexts.iter().map(|context| {
        let current = contexts.current.as_deref() == Some(&context.name);
        let project = context.project.clone().unwrap_or_else(|| "-".to_owned());
        let mark = if current { "*" } else { "" };
        vec![mark.to_owned(), context.name.clone(), context.server.clone(), project]
    }));
    print::lines(&plain_lines(&rows, style::stdout()))
}

fn show(contexts: &Contexts, name: Option<&str>) -> anyhow::Result<()> {
    let Some(context) = contexts.find(name)? else {
        bail!("no context is used; choose one with: orrery context use NAME");
    };
    let text = serde_saphyr::to_string(context).context("write the context as YAML")?;
    print::line(text.trim_end())
}

/// What is given changes, the rest stays.
fn changed(contexts: &Contexts, set: ContextSet) -> anyhow::Result<Context> {
    let known = contexts.contexts.iter().find(|context| context.name == set.name);
    let before = known.cloned().unwrap_or_default();
    if set.name.trim().is_empty() {
        bail!("a context needs a name");
    }
    let Some(server) = set.server.or(known.map(|known| known.server.clone())) else {
        bail!("context {} is new: say where its server is with --server", set.name);
    };
    let absolute = |given: Option<std::path::PathBuf>, before| match given {
        // A context is used from any folder.
        Some(path) => std::path::absolute(&path).map(Some).context("find the file"),
        None => Ok(before),
    };
    let context = Context {
        name: set.name,
        server,
        project: set.project.or(before.project),
        root: absolute(set.tls.root, before.root)?,
        certificate: absolute(set.tls.certificate, before.certificate)?,
        key: absolute(set.tls.key, before.key)?,
        token_file: absolute(set.token_file, before.token_file)?,
    };
    // A mistake is better told now than at the next command.
    context.endpoint()?;
    Ok(context)
}
