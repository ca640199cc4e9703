//! A centre that goes and comes back.
use super::{CLASSES, at, class, declare, mk_operations};
use crate::support::{PATIENCE, World};
use orrery_hub::Revision;
use orrery_testkit::world::World as Server;
use serde_json::Value;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Waits until a site has heard of everything up to a revision of the centre.
async fn until_heard(site: &World, wanted: Revision) {
    let storage = site.hub.storage("machineclasses").unwrap();
    let heard = async {
        while storage.cache().unwrap().heard() < wanted {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, heard).await.expect("it listens");
}

/// proves: HUB-06
#[tokio::test]
async fn a_centre_that_is_away_is_named_and_one_that_comes_back_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let (store, nowhere) = (folder.path().join("store"), "http://127.0.0.1:1");
    let lost = World::operated(<_>::default(), mk_operations(nowhere, &["MachineClass"])).await;
    let refused = lost.get(CLASSES).await.expect(503);
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains(nowhere) && message.contains("machineclasses"), "{message}");

    let centre = Server::start_at(([127, 0, 0, 1], 0).into(), &store).await;
    let address = centre.url.strip_prefix("http://").unwrap().parse().unwrap();
    declare(&centre.hub, "small", "one").await;
    let mut operations = mk_operations(&centre.url, &["MachineClass"]);
    operations.upstreams.cache = None;
    let site = World::operated(<_>::default(), operations).await;
    let mut changes = site.watch(&format!("{CLASSES}?watch=true"), "application/json").await;
    assert_eq!(changes.next().await.unwrap()["type"], "ADDED");
    // A bookmark of the centre says that the state at the beginning is complete; what is written after it is a change.
    declare(&centre.hub, "small", "two").await;
    assert_eq!(changes.next().await.unwrap()["type"], "MODIFIED");
    let url = centre.url.clone();
    centre.stop().await;
    let refused = site.get(&at("small")).await.expect(503);
    assert!(refused["message"].as_str().unwrap().contains(&url), "{refused}");
    let written = site.post(CLASSES, &class("more", "")).await.expect(503);
    assert_eq!(written["reason"], "ServiceUnavailable");

    let centre = Server::start_at(address, &store).await;
    let back = async {
        while site.get(&at("small")).await.code != 200 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, back).await.expect("it is asked again");
    declare(&centre.hub, "small", "three").await;
    let event: Value = changes.next().await.unwrap();
    assert_eq!(event["type"], "MODIFIED", "the watch went on: {event}");
    assert_eq!(super::note_of(&event["object"]), "three");
    centre.stop().await;
}

/// What was read before is good for a while without the centre, and no longer.
///
/// proves: HUB-14
#[tokio::test]
async fn what_is_kept_outlives_a_centre_until_it_expires() {
    let folder = tempfile::tempdir().unwrap();
    let centre = Server::start_at(([127, 0, 0, 1], 0).into(), &folder.path().join("store")).await;
    let declared = declare(&centre.hub, "small", "one").await;
    let keeps =
        World::operated(<_>::default(), mk_operations(&centre.url, &["MachineClass"])).await;
    let mut operations = mk_operations(&centre.url, &["MachineClass"]);
    let cache = operations.upstreams.cache.as_mut().unwrap();
    cache.expiry = Duration::ZERO;
    let forgets = World::operated(<_>::default(), operations).await;
    for site in [&keeps, &forgets] {
        until_heard(site, declared).await;
        assert_eq!(super::note_of(&site.get(&at("small")).await.expect(200)), "one");
    }
    centre.stop().await;
    assert_eq!(super::note_of(&keeps.get(&at("small")).await.expect(200)), "one");
    forgets.get(&at("small")).await.expect(503);
}

/// How far answers come on the way from a centre.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Open,
    /// They are lost.
    Silent,
    Cut,
}

/// Passes on what is said to a centre, and what comes back as long as it is let.
async fn relay(centre: SocketAddr) -> (String, watch::Sender<Way>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let way = watch::Sender::new(Way::Open);
    let seen = way.clone();
    tokio::spawn(async move {
        while let Ok((here, _)) = listener.accept().await {
            let there = TcpStream::connect(centre).await.expect("the centre is there");
            tokio::spawn(pass(here, there, seen.subscribe()));
        }
    });
    (url, way)
}

async fn pass(here: TcpStream, there: TcpStream, mut way: watch::Receiver<Way>) {
    let (mut asked, mut answered) = (here.into_split(), there.into_split());
    let mut until_cut = way.clone();
    let back = async {
        let mut piece = [0; 4096];
        while let Ok(read @ 1..) = answered.0.read(&mut piece).await {
            let open = *way.borrow_and_update() == Way::Open;
            if open && asked.1.write_all(&piece[..read]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        _ = tokio::io::copy(&mut asked.0, &mut answered.1) => {}
        () = back => {}
        _ = until_cut.wait_for(|way| *way == Way::Cut) => {}
    }
}

/// Clients repeat by themselves what they are told was not done.
///
/// proves: HUB-06
#[tokio::test]
async fn what_a_centre_may_have_done_is_not_said_to_have_failed() {
    let centre = World::start().await;
    let (url, way) = relay(centre.address.parse().expect("an address")).await;
    let mut operations = mk_operations(&url, &["MachineClass"]);
    operations.upstreams.cache = None;
    let site = World::operated(<_>::default(), operations).await;
    site.post(CLASSES, &class("heard", "")).await.expect(201);
    way.send_replace(Way::Silent);
    let lost = class("lost", "");
    let post = site.post(CLASSES, &lost);
    let cutting = async {
        while centre.get(&at("lost")).await.code != 200 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        way.send_replace(Way::Cut);
    };
    let (answer, ()) = tokio::join!(post, cutting);
    assert_eq!((answer.code.as_u16(), answer.headers.get("retry-after")), (504, None));
    assert_eq!(answer.expect(504)["reason"], "Timeout");
    // What only asks may be asked again.
    let read = site.get(&at("lost")).await;
    assert_eq!(read.code, 503);
    assert!(read.headers.contains_key("retry-after"));
}
