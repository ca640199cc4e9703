use super::*;
use orrery_api::Scheme;
use orrery_hub::ListOptions;
use orrery_proto::core::v1::{Project, Secret};
use orrery_proto::meta::v1::ObjectMeta;
use std::collections::BTreeSet;

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

async fn revisions(secrets: &Resources<Secret>) -> BTreeSet<String> {
    let all = secrets.list(ListOptions::default()).await.unwrap();
    all.into_iter().map(|secret| secret.metadata.unwrap().resource_version).collect()
}

#[tokio::test]
async fn many_writes_are_few_commits_and_each_has_its_own_outcome() {
    let (hub, secrets) = world().await;
    let writes = Writes::new(&hub);
    let mut asked: Vec<_> = (0..150).map(|n| create(&format!("s-{n}"))).collect();
    asked.push(create("s-0"));
    asked.push(Write::Apply(secret("Not A Name", "x"), ApplyOptions::create()));
    let mut outcomes = writes.all(&secrets, &asked).await;
    assert!(matches!(outcomes.pop(), Some(Err(Error::Invalid { .. }))), "a bad one is refused");
    assert!(matches!(outcomes.pop(), Some(Err(Error::AlreadyExists { .. }))), "once is enough");
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Ok(Outcome::Created))));
    assert_eq!(secrets.list(ListOptions::default()).await.unwrap().len(), 150);
    let commits = revisions(&secrets).await.len();
    assert!(commits <= 10, "{commits} commits, though one of them was refused");
    let before = hub.store().revision();
    let same = writes.one(&secrets, change("s-1", "new")).await;
    assert_eq!((same.unwrap(), hub.store().revision()), (Outcome::Unchanged, before));
}

#[tokio::test]
async fn whoever_was_overtaken_looks_again_and_the_others_are_not_held_up() {
    let (hub, secrets) = world().await;
    let writes = Writes::new(&hub);
    writes.all(&secrets, &[create("a"), create("b")]).await;
    let read = secrets.find(&ObjectName::new("shop", "a")).await.unwrap().unwrap();
    let revision = read.metadata.unwrap().resource_version.parse().unwrap();
    writes.one(&secrets, change("a", "other")).await.unwrap();
    let late = ApplyOptions { precondition: Precondition::At(revision), ..ApplyOptions::default() };
    let asked = [
        Write::Apply(secret("a", "late"), late),
        change("b", "one"),
        change("b", "two"),
        change("c", "three"),
    ];
    let outcomes = writes.all(&secrets, &asked).await;
    assert!(matches!(outcomes[0], Err(Error::Conflict { .. })), "it said what it changes");
    assert!(outcomes[1..].iter().all(Result::is_ok), "{outcomes:?}");
    let label = |secret: Option<Secret>| secret.unwrap().metadata.unwrap().labels["is"].clone();
    assert_eq!(label(secrets.find(&ObjectName::new("shop", "a")).await.unwrap()), "other");
    assert_eq!(label(secrets.find(&ObjectName::new("shop", "b")).await.unwrap()), "two");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writers_at_the_same_moment_all_get_their_answer() {
    let (hub, secrets) = world().await;
    let writes = Writes::new(&hub);
    let mut writers = tokio::task::JoinSet::new();
    for number in 0..400 {
        let (own, its_secrets) = (writes.clone(), secrets.clone());
        let lost =
            tokio::spawn(
                async move { own.one(&its_secrets, create(&format!("lost-{number}"))).await },
            );
        let (own, its_secrets) = (writes.clone(), secrets.clone());
        writers.spawn(async move {
            let created = own.one(&its_secrets, create(&format!("own-{number}"))).await;
            let name = if number % 40 == 0 { "shared" } else { "other" };
            let changed = own.one(&its_secrets, change(name, "x")).await;
            (created, changed)
        });
        // Someone who goes away in the middle, maybe while it commits for others.
        lost.abort();
    }
    for (created, changed) in writers.join_all().await {
        // Whoever committed for it may have gone away before it could say so.
        let made = matches!(created, Ok(Outcome::Created) | Err(Error::AlreadyExists { .. }));
        assert!(made, "{created:?}");
        assert!(changed.is_ok(), "{changed:?}");
    }
    let all = secrets.list(ListOptions::default()).await.unwrap();
    let own = |secret: &&Secret| secret.metadata.as_ref().unwrap().name.starts_with("own-");
    assert_eq!(all.iter().filter(own).count(), 400, "each is there once");
}

#[tokio::test]
async fn the_last_finalizer_takes_the_object_along() {
    let (hub, secrets) = world().await;
    let writes = Writes::new(&hub);
    let mut held = secret("held", "x");
    held.metadata.as_mut().unwrap().finalizers = vec![FINALIZER.into()];
    writes.one(&secrets, Write::Apply(held, ApplyOptions::create())).await.unwrap();
    let name = ObjectName::new("shop", "held");
    let delete = || writes.one(&secrets, Write::Delete(name.clone()));
    assert_eq!(delete().await.unwrap(), Outcome::Changed, "it is held");
    assert!(
        secrets.find(&name).await.unwrap().unwrap().metadata.unwrap().deletion_timestamp.is_some()
    );
    assert_eq!(delete().await.unwrap(), Outcome::Unchanged, "it was asked before");
    let gone = writes.one(&secrets, Write::Release(name.clone(), FINALIZER)).await;
    assert_eq!(gone.unwrap(), Outcome::Gone);
    assert!(secrets.find(&name).await.unwrap().is_none());
    let again = writes.one(&secrets, Write::Release(name.clone(), FINALIZER)).await;
    assert!(matches!(again, Err(Error::NotFound { .. })));
    writes.one(&secrets, create("free")).await.unwrap();
    let gone = writes.one(&secrets, Write::Delete(ObjectName::new("shop", "free"))).await;
    assert_eq!(gone.unwrap(), Outcome::Gone);
}
