//! Files from secrets and artifacts, from the workload to the agent.
use crate::workloads::{apply, mk_workload, shop};
use orrery_hub::artifacts::Artifacts;
use orrery_hub::{ListOptions, ObjectName};
use orrery_proto::apps::v1::{
    ArtifactFile, File, SecretValue, Workload, WorkloadInstance, file::Source,
};
use orrery_proto::core::v1::{Secret, SecretSpec};
use orrery_proto::fleet::v1::{InstanceFiles, server_message::Message};
use orrery_proto::meta::v1::{ObjectMeta, SharedProject, Sharing};
use orrery_testkit::agent::FakeAgent;
use orrery_testkit::world::World;
use prost::Message as _;

fn from_secret(path: &str, secret: &str, key: &str) -> File {
    let value = SecretValue { name: Some(secret.into()), key: Some(key.into()) };
    let mode = Some("0400".to_owned());
    File { path: Some(path.into()), source: Some(Source::Secret(value)), mode }
}

fn with_files(name: &str, nodes: &[&str], files: Vec<File>) -> Workload {
    let mut workload = mk_workload(name, nodes);
    workload.spec.as_mut().unwrap().files = files;
    workload
}

async fn keep(world: &World, value: &str) {
    let metadata =
        ObjectMeta { name: "db".into(), project: "shop".into(), ..ObjectMeta::default() };
    let data = [("password".to_owned(), value.as_bytes().to_vec())].into();
    let spec = SecretSpec { data, ..SecretSpec::default() };
    let secret = Secret { metadata: Some(metadata), spec: Some(spec), ..Secret::default() };
    world.hub.resources().unwrap().apply(&secret).await.unwrap();
}

/// The next files that an agent is handed.
async fn files(agent: &mut FakeAgent) -> InstanceFiles {
    loop {
        if let Message::Files(files) = agent.next().await.expect("the connection is open") {
            return files;
        }
    }
}

/// proves: AGT-15
#[tokio::test]
async fn a_secret_reaches_the_agent_that_runs_its_workload_and_is_kept_nowhere_else() {
    let (world, transport) = shop().await;
    let mut agent = FakeAgent::connect(&transport, "edge-1").await.unwrap();
    let mut other = FakeAgent::connect(&transport, "edge-2").await.unwrap();
    let wanted = vec![from_secret("key", "db", "password")];
    apply(&world, &with_files("web", &["edge-1"], wanted.clone())).await;
    let missing = files(&mut agent).await;
    assert_eq!((missing.problem.as_str(), missing.files.len()), ("there is no secret \"db\"", 0));

    keep(&world, "hunter2").await;
    let handed = files(&mut agent).await;
    assert_ne!(handed.revision, missing.revision);
    let file = &handed.files[0];
    assert_eq!((file.path.as_str(), file.mode, &*file.content), ("key", 0o400, &b"hunter2"[..]));
    let instances = world.hub.resources::<WorkloadInstance>().unwrap();
    let stored = instances.list(ListOptions::default()).await.unwrap().remove(0);
    assert_eq!(stored.spec.as_ref().unwrap().files_revision(), handed.revision);
    let text = b"hunter2";
    assert!(!stored.encode_to_vec().windows(text.len()).any(|bytes| bytes == text));

    // A connection that begins anew is handed everything again.
    drop(agent);
    let mut agent = FakeAgent::connect(&transport, "edge-1").await.unwrap();
    assert_eq!(files(&mut agent).await.revision, handed.revision);

    let without = vec![from_secret("key", "db", "absent")];
    apply(&world, &with_files("web", &["edge-1"], without)).await;
    assert_eq!(files(&mut agent).await.problem, "secret \"db\" has no value \"absent\"");
    // The other agent has heard nothing of it.
    apply(&world, &mk_workload("quiet", &["edge-2"])).await;
    loop {
        match other.next().await.unwrap() {
            Message::Files(files) => panic!("handed to the wrong agent: {files:?}"),
            Message::Assign(_) => break,
            _ => {}
        }
    }
    world.stop().await;
}

/// A changed secret is a change like any other: copies follow one after the other.
#[tokio::test]
async fn a_changed_secret_is_rolled_out() {
    let (world, transport) = shop().await;
    keep(&world, "one").await;
    let mut first = FakeAgent::connect(&transport, "edge-1").await.unwrap();
    let mut second = FakeAgent::connect(&transport, "edge-2").await.unwrap();
    let wanted = vec![from_secret("key", "db", "password")];
    apply(&world, &with_files("web", &["edge-1", "edge-2"], wanted)).await;
    for agent in [&mut first, &mut second] {
        let assignment = agent.assignment().await;
        agent.report(&assignment.id, "Running", assignment.generation).await;
    }
    let web = ObjectName::new("shop", "web");
    let ready = |workload: &Workload| {
        workload.status.as_ref().is_some_and(|status| status.conditions[0].status == "True")
    };
    world.until::<Workload>(&web, ready).await;
    keep(&world, "two").await;
    let changed = tokio::select! {
        assignment = first.assignment() => (assignment, true),
        assignment = second.assignment() => (assignment, false),
    };
    let (assignment, was_first) = changed;
    assert_eq!(assignment.generation, 2);
    let (agent, waiting) = if was_first { (&first, &mut second) } else { (&second, &mut first) };
    agent.report(&assignment.id, "Running", assignment.generation).await;
    assert_eq!(waiting.assignment().await.generation, 2);
    world.stop().await;
}

#[tokio::test]
async fn an_uploaded_file_reaches_the_agent() {
    let (world, transport) = shop().await;
    let mut agent = FakeAgent::connect(&transport, "edge-1").await.unwrap();
    let path = ArtifactFile { path: Some("conf/app.toml".into()) };
    let file =
        File { path: Some("app.toml".into()), source: Some(Source::Artifact(path)), mode: None };
    apply(&world, &with_files("web", &["edge-1"], vec![file.clone()])).await;
    let missing = files(&mut agent).await;
    assert!(missing.problem.contains("conf/app.toml"), "{}", missing.problem);
    let kind = world.hub.resources::<Workload>().unwrap().kind().clone();
    let name = ObjectName::new("shop", "web");
    let path = "conf/app.toml".parse().unwrap();
    let content = "port = 80\n".into();
    Artifacts::new(world.hub.clone()).set(&kind, &name, &path, content).await.unwrap();
    // Uploading is a change like any other.
    let handed = files(&mut agent).await;
    assert_eq!((handed.problem.as_str(), handed.files[0].mode), ("", 0o600));
    assert_eq!(handed.files[0].content, b"port = 80\n");
    assert_ne!(handed.revision, missing.revision);
    // So is taking it away.
    let artifacts = Artifacts::new(world.hub.clone());
    artifacts.remove(&kind, &name, &path).await.unwrap();
    let gone = files(&mut agent).await;
    assert!(gone.problem.contains("conf/app.toml") && gone.files.is_empty(), "{}", gone.problem);
    assert_eq!(gone.revision, missing.revision);
    world.stop().await;
}

/// A changed artifact replaces copies one after the other, and one that no file names none.
#[tokio::test]
async fn a_changed_artifact_is_rolled_out() {
    let (world, transport) = shop().await;
    let mut first = FakeAgent::connect(&transport, "edge-1").await.unwrap();
    let mut second = FakeAgent::connect(&transport, "edge-2").await.unwrap();
    let source = Source::Artifact(ArtifactFile { path: Some("app.toml".into()) });
    let file = File { path: Some("app.toml".into()), source: Some(source), mode: None };
    apply(&world, &with_files("web", &["edge-1", "edge-2"], vec![file])).await;
    let kind = world.hub.resources::<Workload>().unwrap().kind().clone();
    let (name, artifacts) = (ObjectName::new("shop", "web"), Artifacts::new(world.hub.clone()));
    for agent in [&mut first, &mut second] {
        let assignment = agent.assignment().await;
        agent.report(&assignment.id, "Running", assignment.generation).await;
    }
    let ready = |generation: i64| {
        move |workload: &Workload| {
            let status = workload.status.clone().unwrap_or_default();
            let changed = status.observed_generation == generation;
            changed && status.conditions[0].status == "True"
        }
    };
    world.until::<Workload>(&name, ready(1)).await;
    let upload = async |path: &str, content: &'static str| {
        let path = path.parse().unwrap();
        artifacts.set(&kind, &name, &path, content.into()).await.unwrap();
    };
    upload("unnamed.toml", "x").await;
    upload("app.toml", "one").await;
    let changed = tokio::select! {
        assignment = first.assignment() => (assignment, true),
        assignment = second.assignment() => (assignment, false),
    };
    let (assignment, was_first) = changed;
    assert_eq!(assignment.generation, 2, "the one that nobody names changed nothing");
    let (agent, waiting) = if was_first { (&first, &mut second) } else { (&second, &mut first) };
    agent.report(&assignment.id, "Running", assignment.generation).await;
    let next = waiting.assignment().await;
    assert_eq!(next.generation, 2);
    let handed = files(waiting).await;
    assert_eq!(handed.revision, next.spec.unwrap().files_revision());
    assert_eq!(handed.files[0].content, b"one");
    world.stop().await;
}

/// Waits until an agent is handed files that say this.
async fn handed(agent: &mut FakeAgent, expect: &str, content: impl Fn(&InstanceFiles) -> String) {
    while content(&files(agent).await) != expect {}
}

/// A workload means a secret that is shared with its project where the project has none of that name, and follows it.
///
/// proves: HUB-09
#[tokio::test]
async fn a_shared_secret_reaches_workloads_of_the_projects_that_it_is_shared_with() {
    let (world, transport) = shop().await;
    world.project("vault").await;
    let mut agent = FakeAgent::connect(&transport, "edge-1").await.unwrap();
    let share = async |value: &str, with: Option<&str>| {
        let metadata =
            ObjectMeta { name: "db".into(), project: "vault".into(), ..ObjectMeta::default() };
        let data = [("password".to_owned(), value.as_bytes().to_vec())].into();
        let name = with.map(str::to_owned);
        let projects = name.map(|name| SharedProject { name: Some(name) }).into_iter().collect();
        let sharing = Some(Sharing { enabled: Some(with.is_some()), projects });
        let spec = SecretSpec { data, sharing, ..SecretSpec::default() };
        let secret = Secret { metadata: Some(metadata), spec: Some(spec), ..Secret::default() };
        world.hub.resources().unwrap().apply(&secret).await.unwrap();
    };
    share("theirs", None).await;
    let wanted = vec![from_secret("key", "db", "password")];
    apply(&world, &with_files("web", &["edge-1"], wanted)).await;
    let content = |files: &InstanceFiles| match files.files.first() {
        Some(file) => String::from_utf8(file.content.clone()).unwrap(),
        None => files.problem.clone(),
    };
    handed(&mut agent, "there is no secret \"db\"", content).await;
    share("theirs", Some("shop")).await;
    handed(&mut agent, "theirs", content).await;
    share("changed", Some("*")).await;
    handed(&mut agent, "changed", content).await;
    keep(&world, "own").await;
    handed(&mut agent, "own", content).await;
    world.hub.resources::<Secret>().unwrap().delete(&ObjectName::new("shop", "db")).await.unwrap();
    handed(&mut agent, "changed", content).await;
    share("changed", None).await;
    handed(&mut agent, "there is no secret \"db\"", content).await;
    world.stop().await;
}
