//! Completion: what could stand where the cursor is. Kinds, names and projects come from the
//! server, within a moment or not at all: a shell must not hang because a server is away.
mod line;

use crate::args::{Arguments, Connection, Global, Tls};
use crate::kinds;
use crate::paths;
use crate::scheme;
use crate::session::{Scope, Session};
use clap::CommandFactory as _;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::CompleteEnv;
use line::Line;
use orrery_client::context::Contexts;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// The variable by which a shell's script says that it asks for completions.
pub const VARIABLE: &str = "ORRERY_COMPLETE";

/// How long a person who pressed Tab is kept waiting.
const ANSWER_TIME: Duration = Duration::from_secs(2);
/// More names than this help nobody to choose.
const NAMES_MAX: usize = 500;

/// Answers a shell that asks for completions; `None` when none does.
pub fn answer(arguments: &[OsString]) -> Option<ExitCode> {
    std::env::var_os(VARIABLE)?;
    let folder = std::env::current_dir().ok();
    let completing = CompleteEnv::with_factory(Arguments::command)
        .var(VARIABLE)
        .bin("orrery")
        .completer("orrery")
        .try_complete(arguments.iter().cloned(), folder.as_deref());
    match completing {
        Ok(true) => Some(ExitCode::SUCCESS),
        Ok(false) => None,
        Err(error) => Some(crate::exit::usage(&error)),
    }
}

/// Names of contexts.
pub fn contexts() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let line = Line::typed(&Arguments::command());
        let path = paths::config(line.option("config").map(PathBuf::from));
        let known = path.ok().and_then(|path| Contexts::load(&path).ok()).unwrap_or_default();
        candidates(current, known.contexts.into_iter().map(|context| context.name))
    })
}

/// Names of projects.
pub fn projects() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let line = Line::typed(&Arguments::command());
        candidates(current, ask(&line, async |session| names(session, "project", "").await))
    })
}

/// Kinds, then names; or a kind and a name with a slash between them.
pub fn resources() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let line = Line::typed(&Arguments::command());
        let typed = current.to_string_lossy().into_owned();
        if let Some((kind, _)) = typed.split_once('/') {
            let found =
                ask(&line, async |session| names(session, kind, &line.project(session)).await);
            return candidates(current, found.into_iter().map(|name| format!("{kind}/{name}")));
        }
        match line.words.first() {
            Some(kind) if !kind.contains('/') => {
                let found =
                    ask(&line, async |session| names(session, kind, &line.project(session)).await);
                candidates(current, found)
            }
            Some(_) | None => candidates(current, plurals(&line)),
        }
    })
}

/// Kinds and the fields in them, which need no server.
pub fn fields() -> ArgValueCompleter {
    ArgValueCompleter::new(|current: &OsStr| {
        let Ok(scheme) = scheme::local(None) else { return Vec::new() };
        let typed = current.to_string_lossy().into_owned();
        let Some((before, _)) = typed.rsplit_once('.') else {
            return candidates(current, scheme.kinds().map(|kind| kind.singular().to_owned()));
        };
        let (name, path) = before.split_once('.').unwrap_or((before, ""));
        let Ok(kind) = scheme.resolve("", name) else { return Vec::new() };
        let inside = match path {
            "" => Some(kind.schema().root()),
            path => kind
                .schema()
                .field(path)
                .and_then(|f| crate::definitions::message(kind.schema(), f)),
        };
        let found = inside.into_iter().flat_map(|message| &message.fields);
        candidates(current, found.map(|field| format!("{before}.{}", field.json_name)))
    })
}

/// Those that begin as what was typed.
fn candidates(
    current: &OsStr,
    found: impl IntoIterator<Item = String>,
) -> Vec<CompletionCandidate> {
    let typed = current.to_string_lossy();
    let fitting = found.into_iter().filter(|one| one.starts_with(typed.as_ref()));
    fitting.map(CompletionCandidate::new).collect()
}

/// The server's kinds, or those of this build when no server answers.
fn plurals(line: &Line) -> Vec<String> {
    let known = ask(line, async |session| {
        Ok(session.known.kinds.iter().map(|kind| kind.plural.clone()).collect())
    });
    if !known.is_empty() {
        return known;
    }
    let scheme = scheme::local(None).ok();
    let kinds = scheme.iter().flat_map(|scheme| scheme.kinds());
    kinds.map(|kind| kind.plural().to_owned()).collect()
}

/// Asks the server that the line names. Whatever goes wrong, there is nothing to offer.
fn ask(
    line: &Line,
    question: impl AsyncFnOnce(&Session) -> anyhow::Result<Vec<String>>,
) -> Vec<String> {
    let global = Global {
        context: line.option("context"),
        config: line.path("config"),
        ..Global::default()
    };
    let tls = Tls {
        root: line.path("root"),
        certificate: line.path("certificate"),
        key: line.path("key"),
    };
    let token_file = line.option("token-file").map(Into::into);
    let connection = Connection { server: line.option("server"), tls, token_file };
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return Vec::new();
    };
    let asking = async {
        let session = Session::open(&global, &connection).await?;
        question(&session).await
    };
    let answered = runtime.block_on(async { tokio::time::timeout(ANSWER_TIME, asking).await });
    answered.ok().and_then(Result::ok).unwrap_or_default()
}

async fn names(session: &Session, kind: &str, project: &str) -> anyhow::Result<Vec<String>> {
    let mut found = Vec::new();
    for kind in kinds::find_all(&session.known, kind)? {
        let scope = Scope { project: project.to_owned(), ..Scope::default() };
        let page = session.page(kind, &scope, String::new()).await?;
        let names = page.objects.iter().filter_map(|object| object["metadata"]["name"].as_str());
        found.extend(names.take(NAMES_MAX).map(str::to_owned));
    }
    Ok(found)
}
