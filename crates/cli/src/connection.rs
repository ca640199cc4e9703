//! From arguments and contexts to a connected server.
use crate::args::{Connection, Global};
use crate::paths;
use anyhow::{Context as _, bail};
use orrery_client::context::{Context, Contexts, DEFAULT_PROJECT, DEFAULT_SERVER};
use orrery_client::{Commander, Endpoint};

/// Which server, and what to assume.
#[derive(Clone)]
pub struct Target {
    context: Context,
}

impl Target {
    pub fn find(global: &Global, connection: &Connection) -> anyhow::Result<Self> {
        let contexts = match &global.config {
            // To go to the usual server instead would be to act on another one than was meant.
            Some(path) if connection.server.is_none() && !path.exists() => bail!(
                "there is no contexts file {}; make one with orrery context set, or name a --server",
                path.display()
            ),
            _ => Contexts::load(&paths::config(global.config.clone())?)?,
        };
        // An explicit server needs no context; then a missing current one is no error.
        let mut context = match contexts.find(global.context.as_deref()) {
            Ok(found) => found.cloned().unwrap_or_default(),
            Err(_) if connection.server.is_some() => Context::default(),
            Err(error) => return Err(error.into()),
        };
        if let Some(server) = &connection.server {
            let name = std::mem::take(&mut context.name);
            context = Context { name, project: context.project, ..Context::default() };
            context.server.clone_from(server);
        }
        if context.server.is_empty() {
            DEFAULT_SERVER.clone_into(&mut context.server);
        }
        let files = connection.tls.files();
        if files != orrery_pki::TlsFiles::default() {
            (context.root, context.certificate, context.key) =
                (files.root, files.certificate, files.key);
        }
        if let Some(file) = &connection.token_file {
            (context.certificate, context.key) = (None, None);
            context.token_file = Some(file.clone());
        }
        Ok(Self { context })
    }

    pub async fn connect(&self) -> anyhow::Result<Commander> {
        Ok(Commander::connect(&self.endpoint()?).await?)
    }

    /// The server, for what does not go through the commander connection.
    pub fn endpoint(&self) -> anyhow::Result<Endpoint> {
        Ok(self.context.endpoint()?)
    }

    /// Where the server is and who speaks.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The project to look in.
    pub fn project(&self, given: Option<&str>) -> String {
        given.or(self.context.project.as_deref()).unwrap_or(DEFAULT_PROJECT).to_owned()
    }
}

/// Where a context was written down.
pub struct Remembered {
    pub file: std::path::PathBuf,
    /// Whether commands go there without being told.
    pub is_current: bool,
}

/// Makes a server the current context, unless the person has chosen another.
pub fn remember(global: &Global, context: Context) -> anyhow::Result<Remembered> {
    let path = paths::config(global.config.clone())?;
    let mut contexts = Contexts::load(&path)?;
    let before = contexts.clone();
    if contexts.current.is_none() {
        contexts.current = Some(context.name.clone());
    }
    let is_current = contexts.current.as_ref() == Some(&context.name);
    contexts.put(context);
    if contexts != before {
        contexts.save(&path).context("remember how to reach this server")?;
    }
    Ok(Remembered { file: path, is_current })
}
