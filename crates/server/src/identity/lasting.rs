//! Streams that last only as long as whoever listens may: roles and bindings change meanwhile.
use super::Guard;
use futures::stream::{self, BoxStream, StreamExt as _};
use orrery_access::{Attributes, Changes};
use orrery_api::Kind;
use orrery_hub::Error;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;

/// How many of the things that a stream of writes was used for are remembered: the latest ones.
const USES_MAX: usize = 16;

/// What a stream was opened for.
#[derive(Clone, Debug)]
pub struct Lasting {
    asked: Asked,
    /// Whether what is sensitive is shown, to those who may see all of it.
    secrets: bool,
}

#[derive(Clone, Debug)]
enum Asked {
    Once(Attributes),
    Used(Uses),
}

impl Lasting {
    pub fn new(asked: Attributes) -> Self {
        Self { asked: Asked::Once(asked), secrets: false }
    }

    /// A watch of a kind.
    pub fn watch(guard: &Guard, kind: &Kind, project: &str, name: &str) -> Self {
        let asked = super::guard::asked_of_part("watch", kind, "", project, name);
        let secrets = kind.has_secrets() && guard.sees_everything();
        Self { asked: Asked::Once(asked), secrets }
    }

    /// A stream of requests that are judged one by one: it lasts while any of what it was used for is allowed.
    pub fn used(uses: Uses) -> Self {
        Self { asked: Asked::Used(uses), secrets: false }
    }
}

/// What a stream of requests was used for. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Uses {
    latest: Arc<Mutex<VecDeque<Attributes>>>,
}

impl Uses {
    /// One of the requests was granted because of this.
    pub fn note(&self, asked: Attributes) {
        let mut latest = self.latest.lock();
        if latest.contains(&asked) {
            return;
        }
        if USES_MAX <= latest.len() {
            latest.pop_front();
        }
        latest.push_back(asked);
    }

    /// Refuses when nothing of it is allowed any more; what was not used yet may go on.
    fn check(&self, guard: &Guard) -> Result<(), Error> {
        let latest = self.latest.lock().clone();
        match latest.back() {
            Some(last) if !latest.iter().any(|asked| guard.decide(asked).allowed()) => {
                guard.refuse_unless(last)
            }
            Some(_) | None => Ok(()),
        }
    }
}

struct State<T> {
    guard: Guard,
    lasting: Lasting,
    changes: Changes,
    items: BoxStream<'static, Result<T, Error>>,
    /// Whether something may have changed that was not looked at.
    look: bool,
    over: bool,
}

impl Guard {
    /// The same stream, which ends with an error when this one may not have it any more.
    pub fn lasting<T: Send + 'static>(
        &self,
        lasting: Lasting,
        items: BoxStream<'static, Result<T, Error>>,
    ) -> BoxStream<'static, Result<T, Error>> {
        if self.listens_for_ever() {
            // Nobody can take it from them: their streams are as fast as before.
            return items;
        }
        let changes = self.access().changes();
        let guard = self.clone();
        let state = State { guard, lasting, changes, items, look: true, over: false };
        stream::unfold(state, State::next).boxed()
    }
}

impl<T> State<T> {
    async fn next(mut self) -> Option<(Result<T, Error>, Self)> {
        if self.over {
            return None;
        }
        loop {
            // The first look is for what changed while the stream was opened.
            self.look |= self.changes.happened();
            if std::mem::take(&mut self.look)
                && let Err(error) = self.check()
            {
                self.over = true;
                return Some((Err(error), self));
            }
            tokio::select! {
                biased;
                item = self.items.next() => return item.map(|item| (item, self)),
                () = self.changes.next() => self.look = true,
            }
        }
    }

    fn check(&self) -> Result<(), Error> {
        self.guard.check_borrowed()?;
        match &self.lasting.asked {
            Asked::Once(asked) => self.guard.refuse_unless(asked)?,
            Asked::Used(uses) => uses.check(&self.guard)?,
        }
        if self.lasting.secrets && !self.guard.sees_everything() {
            let who = &self.guard.subject().name;
            let text = format!("what user {who:?} may see has changed; ask again");
            return Err(Error::Forbidden(text));
        }
        Ok(())
    }
}
