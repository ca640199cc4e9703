//! The provider's configuration: the same words that the command line takes, its variables and its contexts.
#[cfg(test)]
mod tests;

use crate::resource::{Path, Problem};
use crate::schema::{Attribute, Form, Mode, Object, Shape};
use crate::value::{Type, Value};
use orrery_client::Endpoint;
use orrery_client::context::{
    Context, ContextError, Contexts, DEFAULT_PROJECT, DEFAULT_SERVER, EndpointError, usual_file,
};
use std::ffi::OsString;
use std::path::PathBuf;

/// Which server, and what to assume.
#[derive(Clone, Debug)]
pub struct Settings {
    pub endpoint: Endpoint,
    /// Where resources go that do not say so.
    pub project: String,
    /// Take fields that others set.
    pub force: bool,
}

/// The attributes of the provider, with the variable that stands for each.
const TEXTS: [(&str, &str, &str); 9] = [
    (
        "server",
        "ORRERY_SERVER",
        "Server to talk to, instead of the context's: http://HOST:PORT or https://HOST:PORT.",
    ),
    ("root", "ORRERY_ROOT", "PEM file of the root certificate that the server is checked against."),
    ("certificate", "ORRERY_CERTIFICATE", "PEM file of the certificate to show."),
    ("key", "ORRERY_KEY", "PEM file of its key."),
    (
        "token_file",
        "ORRERY_TOKEN_FILE",
        "File with an access token to show instead of a certificate.",
    ),
    ("token", "", "The access token itself."),
    ("context", "ORRERY_CONTEXT", "Context to use, from the contexts file."),
    (
        "config_file",
        "ORRERY_CONFIG",
        "Contexts file; ~/.config/orrery/config.yaml when it is not set.",
    ),
    (
        "project",
        "",
        "Project of resources that name none; the context's, or \"default\", when it is not set.",
    ),
];

/// The schema of the provider's own configuration.
pub fn schema() -> Object {
    let text = |(name, variable, words): (&str, &str, &str)| {
        let also = match variable {
            "" => String::new(),
            variable => format!(" The variable {variable} says the same."),
        };
        attribute(name, Type::String, format!("{words}{also}"), name == "token")
    };
    let mut attributes: Vec<Attribute> = TEXTS.map(text).into();
    let words = "Whether to take fields that others have set, instead of naming who holds them.";
    attributes.push(attribute("force_conflicts", Type::Bool, words.to_owned(), false));
    Object { attributes, choices: Vec::new() }
}

fn attribute(name: &str, r#type: Type, description: String, sensitive: bool) -> Attribute {
    Attribute {
        name: name.to_owned(),
        json: None,
        description,
        mode: Mode::Optional,
        sensitive,
        immutable: false,
        shape: Shape::Plain(r#type, Form::Natural),
        kept_in: None,
    }
}

/// What is wrong with a configuration as it stands, whatever files there are.
pub fn check(config: &Value, variable: impl Fn(&str) -> Option<OsString>) -> Vec<Problem> {
    let set = |name: &str| !config.get(name).is_null();
    let said = Said { config, variable };
    let mut found = Vec::new();
    let beside = [("token", "token_file"), ("token", "certificate"), ("token_file", "certificate")];
    for (one, other) in beside.into_iter().filter(|(one, other)| set(one) && set(other)) {
        let detail =
            format!("{one:?} cannot be set beside {other:?}: show a certificate or one token.");
        found.push(problem(one, detail));
    }
    for (one, other) in [("certificate", "key"), ("key", "certificate")] {
        if set(one) && !set(other) && said.text(other).is_none() {
            found.push(problem(one, format!("{one:?} needs {other:?} beside it.")));
        }
    }
    if let Some(address) = config.get("server").as_str()
        && let Err(error @ orrery_client::Error::BadAddress { .. }) =
            Endpoint::with_token(address, None, "")
        && !address.starts_with("https://")
    {
        found.push(problem("server", error.to_string()));
    }
    found
}

fn problem(attribute: &str, detail: String) -> Problem {
    let summary = "The configuration of the provider is not valid".to_owned();
    Problem { path: Path::of(&[attribute]), summary, detail }
}

impl Settings {
    /// From the configuration, else from variables, else from a context.
    pub fn find(
        config: &Value,
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, Problem> {
        let said = Said { config, variable };
        let context = said.context()?;
        let endpoint = said.endpoint(&context)?;
        let project = said.text("project").or(context.project);
        let project = project.unwrap_or_else(|| DEFAULT_PROJECT.to_owned());
        let force = config.get("force_conflicts").as_bool().unwrap_or_default();
        Ok(Self { endpoint, project, force })
    }
}

struct Said<'a, F> {
    config: &'a Value,
    variable: F,
}

impl<F: Fn(&str) -> Option<OsString>> Said<'_, F> {
    fn text(&self, name: &str) -> Option<String> {
        let (_, variable, _) = TEXTS.iter().find(|(known, _, _)| *known == name)?;
        let written = self.config.get(name).as_str().map(str::to_owned);
        let set = || (self.variable)(variable)?.into_string().ok();
        written
            .or_else(|| if variable.is_empty() { None } else { set() })
            .filter(|text| !text.is_empty())
    }

    fn file(&self, name: &str) -> Option<PathBuf> {
        self.text(name).map(PathBuf::from)
    }

    /// The context, with what was said instead of its own words.
    fn context(&self) -> Result<Context, Problem> {
        let server = self.text("server");
        let given = self.file("config_file");
        if let (Some(path), None, false) =
            (&given, &server, given.as_ref().is_none_or(|path| path.exists()))
        {
            let detail = format!(
                "There is no contexts file {}; make one with: orrery context set",
                path.display()
            );
            return Err(problem("config_file", detail));
        }
        let wrong = |error: ContextError| {
            let attribute = if matches!(error, ContextError::Unknown { .. }) {
                "context"
            } else {
                "config_file"
            };
            problem(attribute, error.to_string())
        };
        let contexts = match given.or_else(|| usual_file(&self.variable)) {
            Some(path) => Contexts::load(&path).map_err(wrong)?,
            None => Contexts::default(),
        };
        let mut context = match contexts.find(self.text("context").as_deref()) {
            Ok(found) => found.cloned().unwrap_or_default(),
            // A server that is named needs no context.
            Err(_) if server.is_some() && self.text("context").is_none() => Context::default(),
            Err(error) => return Err(wrong(error)),
        };
        if let Some(server) = server {
            context = Context {
                name: context.name,
                project: context.project,
                server,
                ..Context::default()
            };
        }
        if context.server.is_empty() {
            DEFAULT_SERVER.clone_into(&mut context.server);
        }
        let files = [self.file("root"), self.file("certificate"), self.file("key")];
        if files.iter().any(Option::is_some) {
            [context.root, context.certificate, context.key] = files;
        }
        if let Some(file) = self.file("token_file") {
            (context.certificate, context.key) = (None, None);
            context.token_file = Some(file);
        }
        Ok(context)
    }

    fn endpoint(&self, context: &Context) -> Result<Endpoint, Problem> {
        let made = match self.text("token") {
            None => context.endpoint(),
            Some(token) => {
                let root =
                    context.root.as_deref().map(orrery_pki::rooted_client_config).transpose();
                root.map_err(EndpointError::Files)
                    .and_then(|root| Ok(Endpoint::with_token(&context.server, root, token.trim())?))
            }
        };
        made.map_err(|error| problem(blamed(&error, context), error.to_string()))
    }
}

/// The attribute that an error is about.
fn blamed(error: &EndpointError, context: &Context) -> &'static str {
    match error {
        EndpointError::Token(_) => "token_file",
        EndpointError::Server(orrery_client::Error::BadToken) => "token",
        EndpointError::Server(_) => "server",
        EndpointError::Files(cause) => {
            let text = cause.to_string();
            let names = |file: &Option<PathBuf>| {
                file.as_ref().is_some_and(|file| text.contains(&file.display().to_string()))
            };
            match (names(&context.certificate), names(&context.key)) {
                (true, _) => "certificate",
                (_, true) => "key",
                (_, _) => "root",
            }
        }
    }
}
