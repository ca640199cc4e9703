//! Creating, changing and deleting.
use super::diagnostics::{self, error, error_at, of_error};
use super::server::{Name, Server, ServerError};
use super::waiting::{WaitError, Waited, wait};
use crate::duration;
use crate::resource::{Path, Private, View, declare, owned, show};
use crate::schema::ResourceType;
use crate::value::Value;
use crate::wire::tfplugin6::Diagnostic;
use orrery_client::judge::{Verdict, gone, ready};
use orrery_proto::hub::v1::apply_response::Outcome;
use serde_json::{Value as Json, json};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Until a wait is given up when nobody says how long it may take.
const USUAL: Duration = Duration::from_secs(20 * 60);

/// What became of a change: the state as far as it came, and what went wrong.
pub struct Changed {
    pub state: Value,
    pub private: Private,
    pub diagnostics: Vec<Diagnostic>,
}

/// One change, as the host asks for it.
pub struct Change<'a> {
    pub of: &'a ResourceType,
    pub prior: Value,
    pub planned: Value,
    pub config: Value,
    pub private: Private,
}

impl Change<'_> {
    pub async fn run(self, server: &Server, stop: &CancellationToken) -> Changed {
        let subject = if self.planned.is_null() { &self.prior } else { &self.planned };
        let (project, name) =
            (subject.at(&["metadata", "project"]), subject.at(&["metadata", "name"]));
        // The project may have been unknown when it was planned.
        let project = project.as_str().unwrap_or(&server.settings.project);
        let name = name.as_str().unwrap_or_default();
        let named = server.name(self.of, project, name).await;
        let name = match named {
            Ok(name) => name,
            Err(failure) => {
                let told = refused(self.of, "reach the server", &failure);
                return self.unchanged(told);
            }
        };
        match (self.prior.is_null(), self.planned.is_null()) {
            (_, true) => self.delete(server, &name, stop).await,
            (true, false) => self.create(server, &name, stop).await,
            (false, false) => self.update(server, &name, stop).await,
        }
    }

    /// Nothing was done.
    fn unchanged(self, diagnostics: Vec<Diagnostic>) -> Changed {
        Changed { state: self.prior, private: self.private, diagnostics }
    }

    async fn create(self, server: &Server, name: &Name, stop: &CancellationToken) -> Changed {
        match server.get(name).await {
            Ok(None) => {}
            Ok(Some(there)) if is_going(&there) => {
                return self.unchanged(vec![going(name)]);
            }
            Ok(Some(_)) => return self.occupied(name),
            Err(failure) => {
                let told = refused(self.of, &format!("look for {name}"), &failure);
                return self.unchanged(told);
            }
        }
        let object = declare(self.of, &name.api_version, &name.project, &self.config);
        match server.apply(&object).await {
            // Somebody else was faster.
            Ok((_, Outcome::Changed | Outcome::Unchanged)) => self.occupied(name),
            Ok((object, Outcome::Created)) => {
                self.settle(server, name, object, "create", stop).await
            }
            Err(failure) => {
                let told = refused(self.of, &format!("create {name}"), &failure);
                self.unchanged(told)
            }
        }
    }

    fn occupied(self, name: &Name) -> Changed {
        let detail = format!(
            "{name} is there already, and Terraform does not know it. Take it over with: terraform import \
             {}.NAME {}",
            self.of.name,
            name.id()
        );
        let summary = format!("{} exists already", self.of.kind.kind());
        let path = Path::of(&["metadata", "name"]);
        let told = error_at(self.of.style, &path, &summary, detail);
        self.unchanged(vec![told])
    }

    async fn update(self, server: &Server, name: &Name, stop: &CancellationToken) -> Changed {
        let mut object = declare(self.of, &name.api_version, &name.project, &self.config);
        // This very object: one that was deleted meanwhile does not come back half.
        if let Some(uid) = self.prior.at(&["metadata", "uid"]).as_str() {
            object["metadata"]["uid"] = json!(uid);
        }
        match server.apply(&object).await {
            Ok((object, _)) => self.settle(server, name, object, "update", stop).await,
            Err(failure) => {
                let told = refused(self.of, &format!("change {name}"), &failure);
                self.unchanged(told)
            }
        }
    }

    /// Waits for an object that was applied, and says how it is.
    async fn settle(
        self,
        server: &Server,
        name: &Name,
        object: Json,
        doing: &str,
        stop: &CancellationToken,
    ) -> Changed {
        let private = Private { owned: owned(self.of.object(), &self.config), imported: false };
        let (mut newest, mut diagnostics) = (object, Vec::new());
        if is_going(&newest) {
            // It took the change, and takes it along.
            diagnostics.push(going(name));
        } else if self.config.get("wait_for_ready").as_bool() != Some(false) {
            let judge = |object: Option<&Json>| match object {
                Some(object) => ready(object, self.of.reports()),
                None => Verdict::Hopeless("it was deleted while it was waited for".to_owned()),
            };
            if !judge(Some(&newest)).is_done() {
                let limit = limit(&self.config, doing);
                let Waited { object, end } = wait(server, name, judge, limit, stop).await;
                newest = object.unwrap_or(newest);
                diagnostics.extend(end.err().map(|cause| not_ready(name, doing, &cause)));
            }
        }
        let state = state(self.of, name, &newest, &self.planned, View::Known);
        Changed { state, private, diagnostics }
    }

    async fn delete(self, server: &Server, name: &Name, stop: &CancellationToken) -> Changed {
        let uid = self.prior.at(&["metadata", "uid"]).as_str().unwrap_or_default().to_owned();
        let removed = match server.delete(name, &uid).await {
            Ok(removed) => removed,
            Err(failure) => {
                let told = refused(self.of, &format!("delete {name}"), &failure);
                return self.unchanged(told);
            }
        };
        if !removed {
            let uid = Some(uid).filter(|uid| !uid.is_empty());
            let judge = |object: Option<&Json>| match object {
                Some(object) => gone(object, uid.as_deref()),
                None => Verdict::Done("deleted".to_owned()),
            };
            let limit = limit(&self.prior, "delete");
            if let Err(cause) = wait(server, name, judge, limit, stop).await.end {
                let detail = format!(
                    "{name} was asked to go, and is still there {cause}. It goes on by itself; apply again to \
                     wait for it longer, with more time under timeouts.delete."
                );
                return self.unchanged(vec![error("The resource is not gone yet", detail)]);
            }
        }
        Changed { state: Value::Null, private: Private::default(), diagnostics: Vec::new() }
    }
}

fn is_going(object: &Json) -> bool {
    object["metadata"]["deletionTimestamp"].is_string()
}

fn going(name: &Name) -> Diagnostic {
    let detail = format!("{name} is being deleted. Wait until it is gone, then apply again.");
    error("The resource is being deleted", detail)
}

/// An object of the server as state.
pub fn state(of: &ResourceType, name: &Name, object: &Json, known: &Value, view: View) -> Value {
    let mut state = show(of.object(), object, known, view);
    if let Value::Map(attributes) = &mut state {
        attributes.insert("id".to_owned(), Value::text(name.id()));
        attributes.insert("api_version".to_owned(), Value::text(&name.api_version));
    }
    state
}

pub fn refused(of: &ResourceType, doing: &str, failure: &ServerError) -> Vec<Diagnostic> {
    match failure {
        ServerError::Client(failure) => of_error(of, doing, failure),
        other => vec![diagnostics::error(&format!("Cannot {doing}"), other.to_string())],
    }
}

fn not_ready(name: &Name, doing: &str, cause: &WaitError) -> Diagnostic {
    let detail = format!(
        "{name} is stored, and not ready {cause}. Give it more time under timeouts.{doing}, or set \
         wait_for_ready = false."
    );
    error("The resource is not ready", detail)
}

/// How long an operation may take. What is no duration was refused when the configuration was checked.
fn limit(of: &Value, doing: &str) -> Duration {
    of.at(&["timeouts", doing]).as_str().and_then(duration::parse).unwrap_or(USUAL)
}

/// Timeouts that cannot be read.
pub fn check_timeouts(of: &ResourceType, config: &Value) -> Vec<Diagnostic> {
    let given = config.get("timeouts").as_map().into_iter().flatten();
    let wrong = given.filter_map(|(doing, value)| {
        let text = value.as_str().filter(|text| duration::parse(text).is_none())?;
        let detail = format!(
            "{text:?} is no duration of at most a week: write \"30s\", \"20m\" or \"1h30m\"."
        );
        Some(error_at(of.style, &Path::of(&["timeouts", doing]), "Not a duration", detail))
    });
    wrong.collect()
}
