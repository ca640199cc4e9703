//! What a site keeps of what its centre says.
use super::{
    CLASSES, asked, at, class, figure, note, note_of, site_of, until_listening, until_noted,
};
use crate::support::World;
use serde_json::json;

/// proves: HUB-14
#[tokio::test]
async fn what_was_read_is_not_asked_for_again() {
    let centre = World::start().await;
    let site = site_of(&centre).await;
    until_listening(&centre, &site).await;
    let first = site.get(&at("probe")).await.expect(200);
    let listed = site.get(CLASSES).await.expect(200);
    let (gets, lists) = (asked(&centre, "get").await, asked(&centre, "list").await);
    for _ in 0..10 {
        assert_eq!(site.get(&at("probe")).await.expect(200), first);
        assert_eq!(site.get(CLASSES).await.expect(200), listed);
    }
    assert_eq!((asked(&centre, "get").await, asked(&centre, "list").await), (gets, lists));
    site.get(&format!("{CLASSES}?labelSelector=a%3Db")).await.expect(200);
    assert_eq!(asked(&centre, "list").await, lists + 1, "another question");
    for _ in 0..2 {
        site.get(&at("absent")).await.expect(404);
    }
    assert_eq!(asked(&centre, "get").await, gets + 2, "what is not there is not kept");
}

/// proves: HUB-14
#[tokio::test]
async fn a_change_at_the_centre_is_heard_of() {
    let centre = World::start().await;
    let site = site_of(&centre).await;
    until_listening(&centre, &site).await;
    site.get(CLASSES).await.expect(200);
    note(&centre, "probe", "newer").await;
    until_noted(&site, "probe", "newer").await;
    let listed = site.get(CLASSES).await.expect(200);
    assert_eq!(note_of(&listed["items"][0]), "newer", "lists are told with the object");
}

/// proves: HUB-14
#[tokio::test]
async fn what_is_written_at_a_site_is_read_there_at_once() {
    let centre = World::start().await;
    let site = site_of(&centre).await;
    until_listening(&centre, &site).await;
    for number in 0..20 {
        let text = number.to_string();
        note(&site, "probe", &text).await;
        assert_eq!(note_of(&site.get(&at("probe")).await.expect(200)), text);
        let listed = site.get(CLASSES).await.expect(200);
        assert_eq!(note_of(&listed["items"][0]), text);
        let name = format!("extra-{number}");
        site.post(CLASSES, &class(&name, "")).await.expect(201);
        let listed = site.get(CLASSES).await.expect(200);
        assert_eq!(listed["items"].as_array().map(Vec::len), Some(2));
        site.delete(&at(&name), &json!({})).await.expect(200);
        let left = site.get(&at(&name)).await;
        let going = left.code == 404 || !left.json()["metadata"]["deletionTimestamp"].is_null();
        assert!(going, "{}", left.text);
        until_gone(&site, &name).await;
    }
}

/// The centre lets it go a moment later, and the site hears of it.
async fn until_gone(site: &World, name: &str) {
    let gone = async {
        while site.get(&at(name)).await.code != 404 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    assert!(tokio::time::timeout(crate::support::PATIENCE, gone).await.is_ok(), "{name} stays");
}

/// proves: HUB-15
#[tokio::test]
async fn cache_groups_are_found_by_the_name_of_their_storage() {
    let centre = World::start().await;
    let site = site_of(&centre).await;
    until_listening(&centre, &site).await;
    let storage = site.hub.storage("machineclasses").expect("it is registered");
    assert_eq!(storage.upstream().map(|upstream| upstream.address.clone()), Some(centre.url()));
    assert!(storage.cache().is_some());
    assert!(site.hub.storage("workloads").expect("every kind is").cache().is_none());
    assert!(site.hub.storage("nothing").is_none());

    let of = ["storage=\"machineclasses.infra.orrery.dev\"", "group=\"get\""];
    let count = async |name: &str| figure(&site, &format!("orrery_hub_cache_{name}"), &of).await;
    site.get(&at("probe")).await.expect(200);
    let (hits, misses) = (count("hits_total").await, count("misses_total").await);
    site.get(&at("probe")).await.expect(200);
    assert_eq!((count("hits_total").await, count("misses_total").await), (hits + 1, misses));
    assert_eq!((count("entries").await, count("evictions_total").await), (1, 0));
    assert!(100 < count("size_bytes").await);
    storage.changed(&orrery_hub::ObjectName::new("default", "probe"));
    assert_eq!((count("entries").await, count("size_bytes").await), (0, 0));
}
