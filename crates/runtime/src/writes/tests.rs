use super::*;
use orrery_api::Scheme;
use orrery_hub::{Hub, ListOptions, Precondition};
use orrery_proto::core::v1::{Project, Secret};
use orrery_proto::meta::v1::ObjectMeta;
use std::collections::BTreeSet;
use std::sync::Arc;

const FINALIZER: &str = "orrery.dev/test";

async fn world() -> (Hub, Resources<Secret>) {
    let scheme = Scheme::builder().descriptors(orrery_proto::FILE_DESCRIPTOR_SET).build().unwrap();
    let hub = Hub::in_memory(Arc::new(scheme)).await.unwrap().build().unwrap();
    let metadata = Some(ObjectMeta { name: "shop".into(), ..ObjectMeta::default() });
    let project = Project { metadata, ..Project::default() };
    hub.resources::<Project>().unwrap().create(&project).await.unwrap();
    let secrets = hub.resources().unwrap();
    (hub, secrets)
}

fn secret(name: &str, label: &str) -> Secret {
    let metadata = ObjectMeta {
        name: name.into(),
        project: "shop".into(),
        labels: [("is".to_owned(), label.to_owned())].into(),
        ..ObjectMeta::default()
    };
    Secret { metadata: Some(metadata), ..Secret::default() }
}

fn create(name: &str) -> Write<Secret> {
    Write::Apply(secret(name, "new"), ApplyOptions::create())
}

fn change(name: &str, label: &str) -> Write<Secret> {
    Write::Apply(secret(name, label), ApplyOptions::default())
}

async fn one(secrets: &Resources<Secret>, write: Write<Secret>) -> Result<Outcome, Error> {
    all(secrets, &[write]).await.pop().unwrap()
}

async fn revisions(secrets: &Resources<Secret>) -> BTreeSet<String> {
    let all = secrets.list(ListOptions::default()).await.unwrap();
    all.into_iter().map(|secret| secret.metadata.unwrap().resource_version).collect()
}

#[tokio::test]
async fn many_writes_have_a_revision_and_an_outcome_each() {
    let (hub, secrets) = world().await;
    let mut asked: Vec<_> = (0..150).map(|n| create(&format!("s-{n}"))).collect();
    asked.push(create("s-0"));
    asked.push(Write::Apply(secret("Not A Name", "x"), ApplyOptions::create()));
    let mut outcomes = all(&secrets, &asked).await;
    assert!(matches!(outcomes.pop(), Some(Err(Error::Invalid { .. }))), "a bad one is refused");
    assert!(matches!(outcomes.pop(), Some(Err(Error::AlreadyExists { .. }))), "once is enough");
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Ok(Outcome::Created))));
    assert_eq!(secrets.list(ListOptions::default()).await.unwrap().len(), 150);
    assert_eq!(revisions(&secrets).await.len(), 150, "a watch can go on from each of them");
    let before = hub.store().revision();
    let same = one(&secrets, change("s-1", "new")).await;
    assert_eq!((same.unwrap(), hub.store().revision()), (Outcome::Unchanged, before));
}

#[tokio::test]
async fn whoever_was_overtaken_looks_again_and_the_others_are_not_held_up() {
    let (_hub, secrets) = world().await;
    all(&secrets, &[create("a"), create("b")]).await;
    let read = secrets.find(&ObjectName::new("shop", "a")).await.unwrap().unwrap();
    let revision = read.metadata.unwrap().resource_version.parse().unwrap();
    one(&secrets, change("a", "other")).await.unwrap();
    let late = ApplyOptions { precondition: Precondition::At(revision), ..ApplyOptions::default() };
    let asked = [Write::Apply(secret("a", "late"), late), change("b", "two"), change("c", "three")];
    let outcomes = all(&secrets, &asked).await;
    assert!(matches!(outcomes[0], Err(Error::Conflict { .. })), "it said what it changes");
    assert!(outcomes[1..].iter().all(Result::is_ok), "{outcomes:?}");
    let label = |secret: Option<Secret>| secret.unwrap().metadata.unwrap().labels["is"].clone();
    assert_eq!(label(secrets.find(&ObjectName::new("shop", "a")).await.unwrap()), "other");
    assert_eq!(label(secrets.find(&ObjectName::new("shop", "b")).await.unwrap()), "two");
}

#[tokio::test]
async fn the_last_finalizer_takes_the_object_along() {
    let (_hub, secrets) = world().await;
    let mut held = secret("held", "x");
    held.metadata.as_mut().unwrap().finalizers = vec![FINALIZER.into()];
    one(&secrets, Write::Apply(held, ApplyOptions::create())).await.unwrap();
    let name = ObjectName::new("shop", "held");
    let delete = || one(&secrets, Write::Delete(name.clone()));
    assert_eq!(delete().await.unwrap(), Outcome::Changed, "it is held");
    assert!(
        secrets.find(&name).await.unwrap().unwrap().metadata.unwrap().deletion_timestamp.is_some()
    );
    assert_eq!(delete().await.unwrap(), Outcome::Changed, "and still is");
    let gone = one(&secrets, Write::Release(name.clone(), FINALIZER)).await;
    assert_eq!(gone.unwrap(), Outcome::Gone);
    assert!(secrets.find(&name).await.unwrap().is_none());
    let again = one(&secrets, Write::Release(name.clone(), FINALIZER)).await;
    assert!(matches!(again, Err(Error::NotFound { .. })));
    one(&secrets, create("free")).await.unwrap();
    let gone = one(&secrets, Write::Delete(ObjectName::new("shop", "free"))).await;
    assert_eq!(gone.unwrap(), Outcome::Gone);
}
