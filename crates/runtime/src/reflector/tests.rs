use super::*;
use async_trait::async_trait;
use orrery_api::{Kind, Object, Scheme};
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
