//! The web console, in a real browser.
use crate::access::{bind_in, meta};
use crate::clients::{run, script, tools};
use crate::encrypted::validity;
use crate::support::World;
use orrery_pki::{Authority, BearerToken, IssueRequest, Role};
use orrery_proto::core::v1 as core;
use std::net::Ipv4Addr;
use tokio::process::Command;

/// Does what the script calls by this name.
async fn browse(url: &str, what: &str, token: &str) {
    let mut command = Command::new("node");
    command.arg(script("console.mjs"));
    command.arg(tools().join("npm/node_modules/playwright-core/index.mjs"));
    command.args([url, what, token]);
    run(command).await;
}

#[tokio::test]
async fn what_is_lost_on_the_way_is_asked_for_again() {
    browse(&World::start().await.url(), "persists", "").await;
}

#[tokio::test]
async fn what_is_there_is_shown_and_followed() {
    browse(&World::start().await.url(), "follows", "").await;
}

#[tokio::test]
async fn an_object_is_made_in_a_form() {
    browse(&World::start().await.url(), "makes", "").await;
}

#[tokio::test]
async fn an_object_is_changed_and_nobody_elses_change_is_lost() {
    browse(&World::start().await.url(), "changes", "").await;
}

#[tokio::test]
async fn what_was_entered_goes_where_it_should() {
    browse(&World::start().await.url(), "keeps", "").await;
}

#[tokio::test]
async fn an_object_goes_when_it_is_confirmed() {
    browse(&World::start().await.url(), "deletes", "").await;
}

#[tokio::test]
async fn secrets_are_shown_when_that_is_asked_for() {
    browse(&World::start().await.url(), "hides", "").await;
}

/// The other parts of the terminal are looked at where there are agents to run something.
#[tokio::test]
async fn a_screen_shows_what_a_terminal_would() {
    let assets = concat!(env!("CARGO_MANIFEST_DIR"), "/../console/assets/vt.js");
    let mut command = Command::new("node");
    command.arg(script("screen.mjs")).arg(assets);
    run(command).await;
}

#[tokio::test]
async fn who_signs_in_sees_what_they_may_see() {
    let folder = tempfile::tempdir().unwrap();
    let authority = Authority::generate(&"orrery.test".parse().unwrap(), validity()).unwrap();
    let request = IssueRequest::new(Role::Server, "server").ip(Ipv4Addr::LOCALHOST);
    let server = authority.issue(&request, validity()).unwrap().write_to(folder.path()).unwrap();
    let world = World::start_with(server).await;
    let rule = core::AccessRule {
        verbs: vec!["get".into(), "list".into(), "watch".into()],
        groups: vec!["core.orrery.dev".into(), "apps.orrery.dev".into()],
        resources: vec!["projects".into(), "workloads".into()],
        ..<_>::default()
    };
    let role = core::Role {
        metadata: meta("system", "onlooker"),
        spec: Some(core::RoleSpec { rules: vec![rule] }),
        ..<_>::default()
    };
    world.hub.resources().unwrap().create(&role).await.unwrap();
    bind_in(&world.hub, "system", "onlooker", "alice").await;
    let token = BearerToken::generate("alice");
    let spec = core::AccessTokenSpec {
        user: Some("alice".into()),
        secret_hash: Some(token.hash().to_string()),
        ..<_>::default()
    };
    let kept =
        core::AccessToken { metadata: meta("", "alice"), spec: Some(spec), ..<_>::default() };
    world.hub.resources().unwrap().create(&kept).await.unwrap();
    browse(&world.url().replace("http:", "https:"), "signs_in", &token.to_text()).await;
}
