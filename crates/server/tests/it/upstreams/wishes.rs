//! Every way to write, through a site and at its centre: what comes of it is the same.
use super::{at, class, site_of};
use crate::support::World;
use orrery_api::{DecodeOptions, Object};
use orrery_hub::{ApplyOptions, Hub, Merge, Outcome, Part, Precondition, Revision};
use serde_json::json;

fn read(hub: &Hub, name: &str, note: &str) -> Object {
    let mut value = class(name, note);
    value["metadata"]["project"] = json!("default");
    let kind = hub.scheme().resolve("", "MachineClass").unwrap();
    Object::from_json_value(&kind, &value, &DecodeOptions::default()).unwrap().object
}

/// What a write comes to, in one word.
async fn outcome(hub: &Hub, name: &str, options: ApplyOptions) -> Result<Outcome, &'static str> {
    let object = read(hub, name, "written");
    let accessor = hub.accessor(object.kind()).unwrap();
    let applied = accessor.apply(object, options).await;
    applied.map(|applied| applied.outcome).map_err(|error| error.reason())
}

/// Declares an object at the centre, if it should be there; its revision.
async fn prepared(centre: &World, name: &str, present: bool) -> Revision {
    match present {
        true => super::declare(&centre.hub, name, "before").await,
        false => Revision(1),
    }
}

/// proves: HUB-06
#[tokio::test]
async fn every_wish_comes_to_the_same() {
    let centre = World::start().await;
    let site = site_of(&centre).await;
    let mut number = 0;
    for merge in [Merge::Declared, Merge::Replace, Merge::Apply] {
        for wish in ["any", "absent", "present", "at", "at another"] {
            for present in [true, false] {
                for dry_run in [true, false] {
                    number += 1;
                    let mut outcomes = Vec::new();
                    for (hub, whose) in [(&centre.hub, "there"), (&site.hub, "here")] {
                        let name = format!("{whose}-{number}");
                        let found = prepared(&centre, &name, present).await;
                        let precondition = match wish {
                            "absent" => Precondition::Absent,
                            "present" => Precondition::Present,
                            "at" => Precondition::At(found),
                            "at another" => Precondition::At(Revision(2)),
                            _ => Precondition::Any,
                        };
                        let manager = "somebody".to_owned();
                        let options = ApplyOptions {
                            precondition,
                            merge,
                            manager,
                            dry_run,
                            ..<_>::default()
                        };
                        let options = ApplyOptions { force: merge == Merge::Apply, ..options };
                        outcomes.push(outcome(hub, &name, options).await);
                    }
                    let case = format!("{merge:?} {wish} present {present} dry {dry_run}");
                    assert_eq!(outcomes[0], outcomes[1], "{case}");
                }
            }
        }
    }
}

/// A status is written by whoever asks for it, as at the centre; the rest stays.
#[tokio::test]
async fn a_status_is_written_too() {
    let centre = World::start().await;
    let site = site_of(&centre).await;
    super::declare(&centre.hub, "small", "before").await;
    let path = format!("{}/status", at("small"));
    let condition = json!({"type": "Known", "status": "True", "reason": "Told", "message": "x"});
    let change = json!({
        "metadata": {"annotations": {"note": "not mine"}}, "status": {"conditions": [condition]},
    });
    site.patch(&path, crate::support::MERGE, &change).await.expect(200);
    let found = centre.get(&at("small")).await.expect(200);
    assert_eq!(found["status"]["conditions"][0]["reason"], "Told");
    assert_eq!(site.get(&path).await.expect(200), found);
    let absent = read(&site.hub, "absent", "");
    let accessor = site.hub.accessor(absent.kind()).unwrap();
    let refused = accessor.apply(absent, ApplyOptions::status()).await.expect_err("not there");
    assert_eq!(refused.reason(), "NotFound");
    let scale = ApplyOptions { part: Part::Scale, ..ApplyOptions::default() };
    let refused = accessor.apply(read(&site.hub, "small", ""), scale).await.expect_err("no copies");
    assert!(refused.to_string().contains(&centre.url()), "{refused}");
}

/// Where an object came from is hidden at a site as at the centre.
#[tokio::test]
async fn lineage_is_kept_and_hidden() {
    let centre = World::start().await;
    let site = site_of(&centre).await;
    let lineage = |object: &serde_json::Value| {
        object["metadata"]["annotations"]["orrery.dev/lineage"].as_str().map(str::to_owned)
    };
    let mut object = class("small", "one");
    object["metadata"]["annotations"]["orrery.dev/lineage"] = json!("git:x");
    let with = |path: &str| format!("{path}?includeLineage=true");
    site.post(&with(super::CLASSES), &object).await.expect(201);
    for world in [&centre, &site, &site] {
        assert_eq!(lineage(&world.get(&at("small")).await.expect(200)), None);
        let shown = world.get(&with(&at("small"))).await.expect(200);
        assert_eq!(lineage(&shown).as_deref(), Some("git:x"));
    }
    super::note(&site, "small", "two").await;
    let shown = site.get(&with(&at("small"))).await.expect(200);
    assert_eq!((lineage(&shown).as_deref(), super::note_of(&shown)), (Some("git:x"), "two"));
}
