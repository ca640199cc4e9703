//! Streams that last only as long as whoever listens may: roles and bindings change meanwhile.
use super::Guard;
use futures::stream::{self, BoxStream, StreamExt as _};
use orrery_access::{Attributes, Changes};
use orrery_api::Kind;
use orrery_hub::Error;

/// What a stream was opened for.
#[derive(Clone, Debug)]
pub struct Lasting {
    pub asked: Attributes,
    /// Whether what is sensitive is shown, to those who may see all of it.
    pub secrets: bool,
}

impl Lasting {
    pub fn new(asked: Attributes) -> Self {
        Self { asked, secrets: false }
    }

    /// A watch of a kind.
    pub fn watch(guard: &Guard, kind: &Kind, project: &str, name: &str) -> Self {
        let asked = super::guard::asked_of_part("watch", kind, "", project, name);
        Self { asked, secrets: kind.has_secrets() && guard.sees_everything() }
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
        if self.access().may_everything(self.subject()) {
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
        self.guard.refuse_unless(&self.lasting.asked)?;
        if self.lasting.secrets && !self.guard.sees_everything() {
            let who = &self.guard.subject().name;
            let text = format!("what user {who:?} may see has changed; ask again");
            return Err(Error::Forbidden(text));
        }
        Ok(())
    }
}
