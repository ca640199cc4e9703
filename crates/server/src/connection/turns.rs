//! Streams that are always ready, and those who wait meanwhile.
use futures::stream::{Stream, StreamExt as _};

/// What a stream writes before others on its thread have their turn.
const TURN_BYTES: usize = 64 << 10;

/// Lets others have their turn each time that so much was written; `bytes` says how much an item is.
pub fn in_turns<S: Stream>(
    items: S,
    bytes: impl Fn(&S::Item) -> usize,
) -> impl Stream<Item = S::Item> {
    let mut written = 0;
    items.then(move |item| {
        written += bytes(&item);
        let over = TURN_BYTES < written;
        if over {
            written = 0;
        }
        async move {
            if over {
                tokio::task::yield_now().await;
            }
            item
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::FutureExt as _;
    use std::pin::pin;

    #[tokio::test]
    async fn whoever_writes_much_lets_others_have_their_turn() {
        let items = futures::stream::iter([1, TURN_BYTES, 1]);
        let mut items = pin!(in_turns(items, |bytes| *bytes));
        assert_eq!(items.next().now_or_never(), Some(Some(1)));
        assert_eq!(items.next().now_or_never(), None, "the turn is over");
        assert_eq!(items.next().await, Some(TURN_BYTES));
        assert_eq!(items.next().now_or_never(), Some(Some(1)), "a new one");
        assert_eq!(items.next().await, None);
    }
}
