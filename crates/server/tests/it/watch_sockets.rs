//! Watches over WebSockets.
use crate::access::{bind, certificate, until};
use crate::joining::world;
use crate::lasting::{unbind, workload};
use crate::sockets::{among_protocols, socket, token};
use crate::wire::{Tls, address};
use futures::{SinkExt as _, StreamExt as _};
use orrery_hub::ObjectName;
use orrery_pki::{ADMINS, Role};
use orrery_proto::core::v1 as core;
use orrery_testkit::world::{SOON, World};
use serde_json::Value;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

const WATCH: &str = "/apis/apps.orrery.dev/v1/namespaces/demo/workloads?watch=true";

async fn stage() -> World {
    let world = world().await;
    world.project("demo").await;
    world.hub.resources().unwrap().apply(&workload("web")).await.unwrap();
    world
}

async fn heard(socket: &mut WebSocketStream<Tls>) -> Option<Message> {
    loop {
        let next = tokio::time::timeout(SOON, socket.next()).await.expect("in time");
        match next?.unwrap() {
            Message::Ping(_) => {}
            message => return Some(message),
        }
    }
}

/// The next event.
async fn event(socket: &mut WebSocketStream<Tls>) -> Value {
    match heard(socket).await.expect("it is open") {
        Message::Text(text) => {
            assert!(!text.ends_with('\n'), "a message is an event and nothing else");
            serde_json::from_str(&text).unwrap()
        }
        other => panic!("{other:?}"),
    }
}

/// How it was closed, after whatever else is told.
async fn closed(socket: &mut WebSocketStream<Tls>) -> (Vec<Value>, CloseCode) {
    let mut told = Vec::new();
    loop {
        match heard(socket).await.expect("it says goodbye") {
            Message::Text(text) => told.push(serde_json::from_str(&text).unwrap()),
            Message::Close(Some(frame)) => return (told, frame.code),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn events_come_as_messages() {
    let world = stage().await;
    let admin = certificate(&world, Role::User, "root", Some(ADMINS));
    let mut watch = socket(&world, &admin, WATCH, &[]).await.unwrap();
    let first = event(&mut watch).await;
    assert_eq!(
        (&first["type"], &first["object"]["metadata"]["name"]),
        (&"ADDED".into(), &"web".into())
    );
    // Whoever watches may say what they want.
    watch.send(Message::text("hello")).await.unwrap();
    world.hub.resources().unwrap().apply(&workload("db")).await.unwrap();
    let mut second = event(&mut watch).await;
    while second["object"]["metadata"]["name"] != "db" {
        second = event(&mut watch).await;
    }
    assert_eq!(second["type"], "ADDED");
    watch.close(None).await.unwrap();

    let short = format!("{WATCH}&timeoutSeconds=1&fieldSelector=metadata.name%3Dnone");
    let mut watch = socket(&world, &admin, &short, &[]).await.unwrap();
    assert_eq!(closed(&mut watch).await, (vec![], CloseCode::Normal), "its time is over");
}

/// As a page asks, which cannot set headers: with a protocol that is named back to it, and its token beside it.
#[tokio::test]
async fn a_page_brings_its_token() {
    let world = stage().await;
    let (text, machine) = (token(&world).await, certificate(&world, Role::Agent, "edge-2", None));
    let protocols = format!("{}, base64.binary.k8s.io", among_protocols(&text));
    let origin = format!("https://{}", address(&world));
    let headers = [("sec-websocket-protocol", protocols.as_str()), ("origin", &origin)];
    let mut watch =
        until("the token counts", async || socket(&world, &machine, WATCH, &headers).await.ok())
            .await;
    assert_eq!(event(&mut watch).await["type"], "ADDED");
    let tokens = world.hub.resources::<core::AccessToken>().unwrap();
    tokens.delete(&ObjectName::new("", "robot")).await.unwrap();
    let (told, code) = closed(&mut watch).await;
    let last = told.last().expect("it says why");
    assert_eq!((&last["type"], &last["object"]["code"]), (&"ERROR".into(), &401.into()));
    assert_eq!(code, CloseCode::Policy);
}

#[tokio::test]
async fn it_ends_with_the_permission_and_with_the_server() {
    let world = stage().await;
    bind(&world, "demo", "viewer", "ann").await;
    let ann = certificate(&world, Role::User, "ann", None);
    let admin = certificate(&world, Role::User, "root", Some(ADMINS));
    let mut watch =
        until("the binding counts", async || socket(&world, &ann, WATCH, &[]).await.ok()).await;
    assert_eq!(event(&mut watch).await["type"], "ADDED");
    unbind(&world, "ann-viewer").await;
    let (told, _) = closed(&mut watch).await;
    let last = told.last().expect("it says why");
    assert_eq!((&last["type"], &last["object"]["code"]), (&"ERROR".into(), &403.into()));

    let mut watch = socket(&world, &admin, WATCH, &[]).await.unwrap();
    event(&mut watch).await;
    let (_, ()) = tokio::join!(closed(&mut watch), world.stop());
}

#[tokio::test]
async fn what_is_refused_is_no_socket() {
    let world = stage().await;
    let admin = certificate(&world, Role::User, "root", Some(ADMINS));
    let ann = certificate(&world, Role::User, "ann", None);
    let evil = [("origin", "https://evil.example")];
    for (who, more, headers, code, words) in [
        (&ann, "", &[][..], 403, "cannot watch workloads"),
        (&admin, "", &evil[..], 403, "web page"),
        (&admin, "&resourceVersion=x", &[], 400, "resourceVersion"),
        (&admin, "&labelSelector=%3D", &[], 400, "label selector"),
        (&admin, "&resourceVersion=99999", &[], 504, "Too large resource version"),
    ] {
        let outcome = socket(&world, who, &format!("{WATCH}{more}"), headers).await;
        let (said, message) = outcome.expect_err("refused");
        assert_eq!(said, code, "{more} {message}");
        assert!(message.contains(words), "{more} {code}: {message}");
    }
}
