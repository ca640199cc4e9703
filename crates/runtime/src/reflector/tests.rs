use super::*;
use async_trait::async_trait;
use orrery_api::{Kind, Object, ObjectMeta, Scheme};
use orrery_hub::{
    Accessor, Applied, ApplyOptions, DeleteOptions, Deleted, GetOptions, ListOptions, Page,
    Revision, StatusOptions,
};
use orrery_proto::core::v1::Project;
use parking_lot::Mutex;
use std::collections::VecDeque;
use tokio::sync::mpsc;

/// An accessor whose watches are scripts: each one ends as the script does.
struct Scripted {
    kind: Arc<Kind>,
    watches: Mutex<VecDeque<Vec<Result<WatchEvent, Error>>>>,
}

fn unasked<T>() -> Result<T, Error> {
    Err(Error::BadRequest("this test only watches".into()))
}

#[async_trait]
impl Accessor for Scripted {
    fn kind(&self) -> &Arc<Kind> {
        &self.kind
    }
    async fn get(&self, _: GetOptions) -> Result<Object, Error> {
        unasked()
    }
    async fn list(&self, _: ListOptions) -> Result<Page, Error> {
        unasked()
    }
    async fn apply(&self, _: Object, _: ApplyOptions) -> Result<Applied, Error> {
        unasked()
    }
    async fn delete(&self, _: DeleteOptions) -> Result<Deleted, Error> {
        unasked()
    }
    async fn status(&self, _: StatusOptions) -> Result<Object, Error> {
        unasked()
    }
    async fn watch(&self, _: WatchOptions) -> Result<WatchStream, Error> {
        match self.watches.lock().pop_front() {
            Some(script) => Ok(futures::stream::iter(script).boxed()),
            None => Ok(futures::stream::pending().boxed()),
        }
    }
}

fn project(kind: &Arc<Kind>, name: &str) -> Object {
    let mut object = Object::new(kind);
    object.set_name(name);
    object
}

/// What handlers were told, as `+name`, `~name` and `-name`.
fn told(change: &Change<Project>) -> String {
    let sign = match (&change.old, &change.new) {
        (None, Some(_)) => '+',
        (Some(_), Some(_)) => '~',
        (Some(_), None) => '-',
        (None, None) => '?',
    };
    format!("{sign}{}", change.name)
}

#[tokio::test(start_paused = true)]
async fn a_broken_watch_begins_anew_and_tells_what_vanished() {
    let scheme = Scheme::builtin().expect("our own kinds");
    let kind = scheme.kind_of::<Project>().expect("registered");
    let object = |name| project(&kind, name);
    let expired = Error::Expired { requested: Revision(1), oldest: Revision(5), resume: None };
    let first = vec![
        Ok(WatchEvent::Added(object("a"))),
        Ok(WatchEvent::Added(object("b"))),
        Ok(WatchEvent::Bookmark(Revision(2))),
        Ok(WatchEvent::Added(object("c"))),
        Ok(WatchEvent::Modified(object("a"))),
        Ok(WatchEvent::Deleted(object("c"))),
        Err(expired),
    ];
    let second = vec![Ok(WatchEvent::Added(object("a"))), Ok(WatchEvent::Bookmark(Revision(9)))];
    let watches = Mutex::new(VecDeque::from([first, second]));
    let accessor = Scripted { kind: kind.clone(), watches };
    let mut reflector: Reflector<Project> = Reflector::new(Resources::new(Arc::new(accessor)));
    let (tell, mut heard) = mpsc::channel(32);
    reflector.on_change(move |change| tell.try_send(told(change)).expect("room for all"));
    let (view, mut synced) = (reflector.view(), reflector.synced());
    let stop = CancellationToken::new();
    let running = tokio::spawn(reflector.run(stop.clone()));
    synced.wait_for(|synced| *synced).await.expect("it lives");
    let mut all = Vec::new();
    while all.last().map(String::as_str) != Some("-b") {
        all.push(heard.recv().await.expect("it lives"));
    }
    assert_eq!(all, ["+a", "+b", "+c", "~a", "-c", "~a", "-b"]);
    assert_eq!(view.names().len(), 1);
    stop.cancel();
    running.await.expect("no panic").expect("a clean stop");
}

/// What freezes nothing and is labelled by nobody is of no interest to this one.
fn labels(project: &Encoded) -> Result<Option<Project>, ObjectError> {
    let labels = project.meta()?.labels;
    let metadata = ObjectMeta { labels, ..ObjectMeta::default() };
    Ok((!metadata.labels.is_empty())
        .then(|| Project { metadata: Some(metadata), ..Project::default() }))
}

#[tokio::test(start_paused = true)]
async fn who_picks_a_part_hears_of_that_part_only() {
    let scheme = Scheme::builtin().expect("our own kinds");
    let kind = scheme.kind_of::<Project>().expect("registered");
    let object = |name: &str, label: &str, note: &str| {
        let mut object = project(&kind, name);
        object.update_meta(|meta| {
            meta.annotations.insert("note".into(), note.into());
            if !label.is_empty() {
                meta.labels.insert("label".into(), label.into());
            }
        });
        object
    };
    let expired = Error::Expired { requested: Revision(1), oldest: Revision(5), resume: None };
    let first = vec![
        Ok(WatchEvent::Added(object("a", "", "1"))),
        Ok(WatchEvent::Added(object("b", "x", "1"))),
        Ok(WatchEvent::Added(object("c", "x", "1"))),
        Ok(WatchEvent::Bookmark(Revision(2))),
        Ok(WatchEvent::Modified(object("a", "", "2"))),
        Ok(WatchEvent::Modified(object("b", "x", "2"))),
        Ok(WatchEvent::Modified(object("b", "y", "2"))),
        Ok(WatchEvent::Modified(object("b", "", "2"))),
        Ok(WatchEvent::Modified(object("a", "z", "2"))),
        Ok(WatchEvent::Deleted(object("b", "", "2"))),
        Err(expired),
    ];
    let second =
        vec![Ok(WatchEvent::Added(object("a", "z", "3"))), Ok(WatchEvent::Bookmark(Revision(9)))];
    let watches = Mutex::new(VecDeque::from([first, second]));
    let accessor = Scripted { kind: kind.clone(), watches };
    let reflector: Reflector<Project> = Reflector::new(Resources::new(Arc::new(accessor)));
    let mut reflector = reflector.picking(labels);
    let (tell, mut heard) = mpsc::channel(32);
    reflector.on_change(move |change| tell.try_send(told(change)).expect("room for all"));
    let view = reflector.view();
    let stop = CancellationToken::new();
    let running = tokio::spawn(reflector.run(stop.clone()));
    let mut all = Vec::new();
    while all.last().map(String::as_str) != Some("-c") {
        all.push(heard.recv().await.expect("it lives"));
    }
    assert_eq!(all, ["+b", "+c", "~b", "-b", "+a", "-c"]);
    assert_eq!(view.len(), 1, "what nobody asks for is not kept");
    stop.cancel();
    running.await.expect("no panic").expect("a clean stop");
}
