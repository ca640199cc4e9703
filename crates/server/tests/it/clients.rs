//! Client libraries of other languages, as their users write programs with them.
use crate::support::{PATIENCE, World};
use std::path::{Path, PathBuf};
use tokio::process::Command;

/// Where `cargo xtask test` puts the packages of others.
pub fn tools() -> PathBuf {
    match std::env::var_os("ORRERY_TOOLS") {
        Some(folder) => folder.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/tools"),
    }
}

pub fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(name)
}

pub async fn run(mut command: Command) {
    command.kill_on_drop(true);
    // Some of them make thousands of requests; a soak makes many more.
    let soak = std::env::var("ORRERY_SOAK").ok().and_then(|times| times.parse().ok()).unwrap_or(1);
    let said = tokio::time::timeout(20 * PATIENCE * soak, command.output()).await;
    let said = said.expect("it ends in time").expect("it runs");
    let (out, err) = (String::from_utf8_lossy(&said.stdout), String::from_utf8_lossy(&said.stderr));
    assert!(said.status.success(), "{out}{err}");
    assert!(out.ends_with("all good\n"), "it did everything: {out}{err}");
}

#[tokio::test]
async fn python_kubernetes_client() {
    let world = World::start().await;
    let mut command = Command::new(tools().join("venv/bin/python"));
    command.arg(script("kubernetes_client.py")).arg(world.url());
    run(command).await;
}

#[tokio::test]
async fn javascript_kubernetes_client() {
    let world = World::start().await;
    let mut command = Command::new("node");
    command.arg(script("kubernetes_client.mjs")).arg(world.url());
    command.arg(tools().join("npm/node_modules/@kubernetes/client-node/dist/index.js"));
    run(command).await;
}

/// proves: HUB-18
#[tokio::test]
async fn python_openapi_validators() {
    let world = World::start().await;
    let mut command = Command::new(tools().join("venv/bin/python"));
    command.arg(script("openapi_validator.py")).arg(world.url());
    run(command).await;
}

/// Requests made from the documents of some groups.
async fn schemathesis(groups: &str) {
    let world = World::start().await;
    let mut command = Command::new(tools().join("venv/bin/python"));
    command.arg(script("openapi_requests.py")).arg(world.url()).arg(groups);
    run(command).await;
}

/// proves: HUB-18
#[tokio::test]
async fn python_schemathesis() {
    schemathesis("own").await;
}

/// The same for the kinds of the Service Mesh Interface, in all their versions.
#[tokio::test]
async fn python_schemathesis_of_the_mesh() {
    schemathesis("smi").await;
}
