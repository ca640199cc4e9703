use super::*;
use futures::future::FutureExt as _;
use orrery_client::{ApiError, Error};
use orrery_proto::hub::v1::{Resource, resource::Body};
use serde_json::json;
use std::collections::VecDeque;
use std::sync::Mutex;

/// What one watch tells before it waits for ever.
type Script = Vec<anyhow::Result<WatchResponse>>;

/// Answers each watch with the next script, and remembers what was asked for.
#[derive(Default)]
struct Scripted {
    scripts: Mutex<VecDeque<Script>>,
    asked: Mutex<Vec<String>>,
    /// How often the server is not there when it is looked for again.
    absences: Mutex<usize>,
    refusal: Option<&'static str>,
}

impl Source for Scripted {
    fn open(self: Arc<Self>, request: WatchRequest) -> BoxFuture<'static, anyhow::Result<Events>> {
        let (kind, project, name) = (request.kind, request.project, request.name);
        self.asked.lock().unwrap().push(format!("{kind} {project}/{name}"));
        let script = self.scripts.lock().unwrap().pop_front().unwrap_or_default();
        let events = stream::iter(script).chain(stream::pending());
        std::future::ready(Ok(events.boxed())).boxed()
    }

    fn restore(self: Arc<Self>) -> BoxFuture<'static, anyhow::Result<()>> {
        self.asked.lock().unwrap().push("connect".to_owned());
        let mut absences = self.absences.lock().unwrap();
        let outcome = match (absences.checked_sub(1), self.refusal) {
            (Some(left), _) => {
                *absences = left;
                let (server, cause) = ("s".to_owned(), "refused".to_owned());
                Err(Error::NotAvailable { server, cause }.into())
            }
            (None, Some(message)) => {
                let (server, message) = ("s".to_owned(), message.to_owned());
                Err(Error::Refused { server, message }.into())
            }
            (None, None) => Ok(()),
        };
        std::future::ready(outcome).boxed()
    }
}

fn is(name: &str) -> anyhow::Result<WatchResponse> {
    let text = json!({"metadata": {"name": name}}).to_string();
    let resource = Resource { body: Some(Body::Json(text)), ..Resource::default() };
    Ok(WatchResponse {
        r#type: Type::Added.into(),
        resource: Some(resource),
        ..WatchResponse::default()
    })
}

fn complete() -> anyhow::Result<WatchResponse> {
    Ok(WatchResponse { r#type: Type::Bookmark.into(), ..WatchResponse::default() })
}

fn refused(reason: &str) -> anyhow::Result<WatchResponse> {
    let (reason, message) = (reason.to_owned(), format!("it is {reason}"));
    Err(Error::Api(ApiError { reason, message, violations: Vec::new() }).into())
}

fn lost() -> anyhow::Result<WatchResponse> {
    Err(Error::ConnectionLost { server: "s".to_owned(), cause: "reset".to_owned() }.into())
}

/// What is told, in words, until there is nothing more to tell, and what the server was asked for.
async fn told(patience: Patience, scripts: Vec<Script>) -> (Vec<String>, Vec<String>) {
    told_by(patience, Scripted { scripts: Mutex::new(scripts.into()), ..Scripted::default() }).await
}

async fn told_by(patience: Patience, source: Scripted) -> (Vec<String>, Vec<String>) {
    let source = Arc::new(source);
    let request = WatchRequest {
        kind: "Workload".to_owned(),
        project: "p".to_owned(),
        ..WatchRequest::default()
    };
    let projects = KindInfo { kind: "Project".to_owned(), ..KindInfo::default() };
    let mut changes = changes(source.clone(), request, &projects, patience);
    let mut told = Vec::new();
    // The clock stands still but for those who wait for it, so an hour is never late.
    while let Ok(Some(change)) =
        tokio::time::timeout(Duration::from_secs(3600), changes.next()).await
    {
        told.push(match change {
            Ok(Told::Change(Change::Is(object))) => {
                object["metadata"]["name"].as_str().unwrap().to_owned()
            }
            Ok(Told::Change(Change::Gone(_))) => "gone".to_owned(),
            Ok(Told::Change(Change::Complete)) => "complete".to_owned(),
            Ok(Told::Change(Change::Again)) => "again".to_owned(),
            Ok(Told::Lost(_)) => "lost".to_owned(),
            Ok(Told::Found) => "found".to_owned(),
            Err(error) => format!("error: {error}"),
        });
    }
    let asked = source.asked.lock().unwrap().clone();
    (told, asked)
}

#[tokio::test(start_paused = true)]
async fn what_was_missed_is_looked_at_again() {
    let first = vec![is("a"), complete(), is("b"), refused("Expired")];
    let second = vec![is("b"), complete()];
    let (told, asked) = told(Patience::Later, vec![first, second]).await;
    assert_eq!(told, ["a", "complete", "b", "again", "b", "complete"]);
    assert_eq!(asked, ["Workload p/", "Workload p/"]);
}

#[tokio::test(start_paused = true)]
async fn a_project_that_is_deleted_is_waited_for() {
    let first = vec![is("a"), complete(), refused("Expired")];
    let project = vec![complete(), is("p")];
    let scripts = vec![first, vec![refused("NotFound")], project, vec![is("b"), complete()]];
    let (told, asked) = told(Patience::Later, scripts).await;
    let expect = ["a", "complete", "again", "complete", "again", "b", "complete"];
    assert_eq!(told, expect);
    assert_eq!(asked, ["Workload p/", "Workload p/", "Project /p", "Workload p/"]);
}

#[tokio::test(start_paused = true)]
async fn a_project_that_never_was_is_an_error_unless_it_is_waited_for() {
    let absent = || vec![vec![refused("NotFound")]];
    assert_eq!(told(Patience::Later, absent()).await.0, ["error: it is NotFound"]);
    assert_eq!(told(Patience::Always, absent()).await.0, ["complete"]);
}

#[tokio::test(start_paused = true)]
async fn who_may_not_watch_projects_is_told_that_it_is_not_there() {
    let scripts = vec![vec![refused("NotFound")], vec![refused("Forbidden")]];
    assert_eq!(told(Patience::Always, scripts).await.0, ["complete", "error: it is NotFound"]);
}

#[tokio::test(start_paused = true)]
async fn the_watch_of_a_project_begins_again_too() {
    let scripts = vec![
        vec![refused("NotFound")],
        vec![refused("Expired")],
        vec![complete(), is("p")],
        vec![complete()],
    ];
    assert_eq!(told(Patience::Always, scripts).await.0, ["complete", "again", "complete"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_in_trouble_is_asked_with_pauses() {
    let begun = tokio::time::Instant::now();
    let scripts = (0..3).map(|_| vec![refused("Expired")]).collect();
    assert_eq!(told(Patience::Later, scripts).await.0, ["again"; 3]);
    assert!(3 * PAUSE <= begun.elapsed(), "three pauses");
}

#[tokio::test(start_paused = true)]
async fn other_errors_end_it() {
    let scripts = vec![vec![complete(), refused("Forbidden")]];
    assert_eq!(told(Patience::Always, scripts).await.0, ["complete", "error: it is Forbidden"]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_connection_is_made_again_and_everything_told_once_more() {
    let scripts = vec![vec![is("a"), complete(), lost()], vec![is("b"), complete()]];
    let source = Scripted { scripts: Mutex::new(scripts.into()), ..Scripted::default() };
    let (told, asked) = told_by(Patience::Later, Scripted { absences: 2.into(), ..source }).await;
    assert_eq!(told, ["a", "complete", "lost", "found", "again", "b", "complete"]);
    assert_eq!(asked, ["Workload p/", "connect", "connect", "connect", "Workload p/"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stays_away_ends_it_in_the_end() {
    let begun = Instant::now();
    let scripts = Mutex::new(vec![vec![complete(), lost()]].into());
    let source = Scripted { scripts, absences: usize::MAX.into(), ..Scripted::default() };
    let (told, asked) = told_by(Patience::Later, source).await;
    assert_eq!(told[..2], ["complete", "lost"]);
    assert!(told[2].contains("is not available") && told.len() == 3, "{told:?}");
    assert!(AWAY_MAX <= begun.elapsed() && begun.elapsed() < AWAY_MAX + 2 * RETRY_MAX);
    assert!(asked.len() < 80, "it is asked less and less often: {}", asked.len());
}

/// A server whose store is away takes connections and refuses every watch.
#[tokio::test(start_paused = true)]
async fn a_server_is_found_again_when_it_tells_something_and_not_before() {
    let first = vec![is("a"), complete(), lost()];
    let scripts = vec![first, vec![lost()], vec![lost()], vec![is("b"), complete()]];
    let (told, asked) = told(Patience::Later, scripts).await;
    assert_eq!(told, ["a", "complete", "lost", "found", "again", "b", "complete"]);
    assert_eq!(asked.iter().filter(|asked| *asked == "connect").count(), 3);
}

/// A server that takes every connection and says nothing is given up like one that is not there.
#[tokio::test(start_paused = true)]
async fn a_server_that_loses_every_connection_is_asked_with_pauses() {
    let begun = Instant::now();
    let scripts = (0..1000).map(|_| vec![lost()]).collect();
    let (told, _) = told(Patience::Later, scripts).await;
    assert!(told.last().unwrap().contains("was lost") && told.len() < 240, "{}", told.len());
    assert!(AWAY_MAX <= begun.elapsed(), "it was given its time");
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_ends_it() {
    let scripts = Mutex::new(vec![vec![complete(), lost()]].into());
    let source = Scripted { scripts, refusal: Some("revoked"), ..Scripted::default() };
    let (told, asked) = told_by(Patience::Later, source).await;
    assert!(told.last().unwrap().contains("revoked"), "{told:?}");
    assert_eq!(asked, ["Workload p/", "connect"]);
}
