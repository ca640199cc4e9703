//! A server, a bare repository on disk, and somebody who works in a clone of it.
use orrery_api::Object;
use orrery_hub::{ApplyOptions, Error, GetOptions, Hub, ObjectName};
use orrery_proto::core::v1::{GitSync, GitSyncStatus};
use orrery_testkit::world::{Operations, World, WorldOptions};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

pub const PROJECT: &str = "demo";

/// Runs git as a person would, with nothing of this machine's own settings.
#[track_caller]
pub fn git(folder: &Path, arguments: &[&str]) -> String {
    let output = Command::new("git")
        .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.test"])
        .args(["-c", "init.defaultBranch=main", "-c", "protocol.file.allow=always"])
        .args(arguments)
        .current_dir(folder)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .output()
        .expect("git runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A repository, and a clone that somebody works in.
pub struct Repository {
    _held: TempDir,
    pub bare: PathBuf,
    pub work: PathBuf,
}

impl Repository {
    /// With one commit that holds only a README.
    pub fn new() -> Self {
        let empty = Self::empty();
        empty.push(&[("README.md", Some("ours"))]);
        empty
    }

    pub fn empty() -> Self {
        let held = tempfile::tempdir().unwrap();
        let (bare, work) = (held.path().join("there.git"), held.path().join("work"));
        git(held.path(), &["init", "--quiet", "--bare", "there.git"]);
        git(held.path(), &["init", "--quiet", "work"]);
        git(&work, &["remote", "add", "origin", &bare.to_string_lossy()]);
        Self { _held: held, bare, work }
    }

    pub fn url(&self) -> String {
        format!("file://{}", self.bare.display())
    }

    /// Writes files, or removes them, and pushes a commit.
    #[track_caller]
    pub fn push(&self, files: &[(&str, Option<&str>)]) -> String {
        self.change(files);
        self.commit();
        git(&self.work, &["push", "--quiet", "origin", "HEAD:main"]);
        self.head()
    }

    #[track_caller]
    pub fn change(&self, files: &[(&str, Option<&str>)]) {
        for (path, content) in files {
            let path = self.work.join(path);
            match content {
                Some(content) => {
                    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                    std::fs::write(path, content).unwrap();
                }
                None => std::fs::remove_file(path).unwrap(),
            }
        }
    }

    #[track_caller]
    pub fn commit(&self) {
        git(&self.work, &["add", "--all"]);
        git(&self.work, &["commit", "--quiet", "--message", "a change"]);
    }

    pub fn head(&self) -> String {
        git(&self.work, &["rev-parse", "HEAD"]).trim().to_owned()
    }

    /// What is in the repository now, beside what the clone knows.
    #[track_caller]
    pub fn show(&self, path: &str) -> Option<String> {
        // One commit, whatever is pushed meanwhile.
        let latest = self.latest();
        let there = git(&self.bare, &["ls-tree", "-r", "--name-only", &latest]);
        there
            .lines()
            .any(|it| it == path)
            .then(|| git(&self.bare, &["show", &format!("{latest}:{path}")]))
    }

    pub fn latest(&self) -> String {
        git(&self.bare, &["rev-parse", "main"]).trim().to_owned()
    }

    /// Brings the clone to what is in the repository.
    pub fn pull(&self) {
        git(&self.work, &["fetch", "--quiet", "origin", "main"]);
        git(&self.work, &["reset", "--quiet", "--hard", "FETCH_HEAD"]);
    }
}

pub fn workload(name: &str, command: &str) -> String {
    format!(
        "apiVersion: apps.orrery.dev/v1\nkind: Workload\nmetadata:\n  name: {name}\nspec:\n  process:\n    command: {command}\n  placement:\n    nodes: [n1]\n"
    )
}

/// A secret, whose changes are seen with the next look.
pub fn secret(name: &str, value: &str) -> String {
    format!(
        "apiVersion: core.orrery.dev/v1\nkind: Secret\nmetadata:\n  name: {name}\nspec:\n  stringData:\n    value: \"{value}\"\n"
    )
}

pub fn operations() -> Operations {
    let mut operations = Operations::default();
    operations.git.allow_local = true;
    operations
}

/// A server that takes repositories on disk, with a project.
pub async fn world() -> World {
    world_with(WorldOptions { operations: operations(), ..<_>::default() }).await
}

pub async fn world_with(options: WorldOptions) -> World {
    let world = World::start_with(options).await;
    world.project(PROJECT).await;
    world
}

/// Looks every second, unless `more` says otherwise.
pub fn sync(name: &str, repository: &str, more: Value) -> Value {
    let mut spec = json!({"repository": repository, "intervalSeconds": 1});
    for (key, value) in more.as_object().unwrap() {
        spec[key] = value.clone();
    }
    json!({
        "apiVersion": "core.orrery.dev/v1", "kind": "GitSync",
        "metadata": {"name": name, "project": PROJECT}, "spec": spec,
    })
}

pub fn read(hub: &Hub, value: &Value) -> Object {
    hub.scheme().read_value(value, &Default::default()).unwrap().object
}

pub async fn apply(hub: &Hub, value: &Value) -> Object {
    let object = read(hub, value);
    let accessor = hub.accessor(object.kind()).unwrap().clone();
    accessor.apply(object, ApplyOptions::default()).await.unwrap().object
}

pub async fn delete(hub: &Hub, kind: &str, name: &str) {
    let kind = hub.scheme().resolve("", kind).unwrap();
    hub.accessor(&kind).unwrap().delete(ObjectName::new(PROJECT, name).into()).await.unwrap();
}

/// With its lineage.
pub async fn find(hub: &Hub, kind: &str, name: &str) -> Option<Object> {
    let kind = hub.scheme().resolve("", kind).unwrap();
    let options = GetOptions {
        name: ObjectName::new(PROJECT, name),
        include_lineage: true,
        ..GetOptions::default()
    };
    match hub.accessor(&kind).unwrap().get(options).await {
        Ok(object) => Some(object),
        Err(Error::NotFound { .. }) => None,
        Err(error) => panic!("{error}"),
    }
}

pub fn json_of(object: &Object) -> Value {
    object.to_json_value(&Default::default())
}

/// Waits until the status of a sync is as it should be.
pub async fn until(
    world: &World,
    name: &str,
    wanted: impl Fn(&GitSyncStatus) -> bool,
) -> GitSyncStatus {
    let name = ObjectName::new(PROJECT, name);
    let sync =
        world.until::<GitSync>(&name, |sync| sync.status.as_ref().is_some_and(&wanted)).await;
    sync.status.unwrap()
}

/// Waits until a sync has seen a commit, and everything of it is done.
pub async fn synced(world: &World, name: &str, commit: &str) -> GitSyncStatus {
    until(world, name, |status| status.synced_commit == commit && status.state == "Synced").await
}

/// Waits for anything else.
pub async fn eventually<T>(what: &str, look: impl AsyncFn() -> Option<T>) -> T {
    let waited = tokio::time::timeout(orrery_testkit::world::SOON, async {
        loop {
            if let Some(found) = look().await {
                return found;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    });
    waited.await.unwrap_or_else(|_| panic!("not in time: {what}"))
}
