use super::*;
use proptest::prelude::*;

const SECOND: Duration = Duration::from_secs(1);

fn queue() -> (Queue<u8>, Instant) {
    (Queue::new(Backoff { first: SECOND, longest: 8 * SECOND }), Instant::now())
}

#[tokio::test]
async fn a_key_waits_once_and_flies_once() {
    let (mut queue, now) = queue();
    queue.add(1);
    queue.add(1);
    assert_eq!(queue.take(now), Some(1));
    assert_eq!(queue.take(now), None);
    queue.add(1);
    assert_eq!(queue.take(now), None, "one in flight per key");
    queue.done(1, Done::AwaitChange, now, 0.0);
    assert_eq!(queue.take(now), Some(1), "the change meanwhile was not lost");
    queue.done(1, Done::AwaitChange, now, 0.0);
    assert!(queue.is_empty());
}

#[tokio::test]
async fn failures_wait_longer_each_time_and_success_forgets_them() {
    let (mut queue, mut now) = queue();
    queue.add(7);
    for expected in [1, 2, 4, 8, 8] {
        assert_eq!(queue.take(now), Some(7));
        queue.done(7, Done::Failed, now, 0.0);
        assert_eq!(queue.next_due(), Some(now + expected * SECOND));
        assert_eq!(queue.take(now), None);
        now += expected * SECOND;
    }
    assert_eq!(queue.take(now), Some(7));
    queue.done(7, Done::After(SECOND), now, 0.0);
    now += SECOND;
    assert_eq!(queue.take(now), Some(7));
    queue.done(7, Done::Failed, now, 0.0);
    assert_eq!(queue.next_due(), Some(now + SECOND));
}

#[tokio::test]
async fn a_change_brings_a_delayed_key_forward() {
    let (mut queue, now) = queue();
    queue.add(1);
    queue.take(now);
    queue.done(1, Done::After(60 * SECOND), now, 0.0);
    queue.add(1);
    assert_eq!(queue.take(now), Some(1));
    queue.done(1, Done::AwaitChange, now, 0.0);
    assert_eq!(queue.next_due(), None, "the old delay is gone");
}

#[tokio::test]
async fn what_can_wait_is_looked_at_once_and_after_what_cannot() {
    let (mut queue, mut now) = queue();
    assert!(queue.add_within(1, now + SECOND), "the first to be due");
    assert!(!queue.add_within(1, now + 2 * SECOND), "it is looked at earlier anyway");
    assert!(!queue.add_within(2, now + SECOND * 3 / 2));
    assert_eq!((queue.take(now), queue.len()), (None, 2));
    now += 2 * SECOND;
    queue.add(3);
    queue.add(2);
    assert_eq!(queue.take(now), Some(3), "new wishes go first");
    assert_eq!(queue.take(now), Some(2), "it was brought forward");
    assert_eq!(queue.take(now), Some(1));
    assert_eq!(queue.take(now), None, "nothing is done twice");
    queue.add_within(1, now + 4 * SECOND);
    queue.add_within(1, now + SECOND);
    queue.done(1, Done::After(2 * SECOND), now, 0.0);
    assert_eq!(queue.next_due(), Some(now + SECOND), "what changed in flight is not lost");
    queue.add_within(2, now + SECOND);
    queue.add(2);
    queue.done(2, Done::AwaitChange, now, 0.0);
    assert_eq!(queue.take(now), Some(2), "the urgent word counts");
}

#[tokio::test]
async fn what_waits_gets_its_share_of_a_busy_queue() {
    let (mut queue, now) = queue();
    queue.add_within(200, now);
    let mut before = 0;
    for key in 0..100 {
        queue.add(key);
        if queue.take(now) == Some(200) {
            break;
        }
        before += 1;
    }
    assert!(before < SHARE_OF_DUE, "{before} came before it");
}

#[derive(Clone, Debug)]
enum Step {
    AddWithin(u8, u8),
    Add(u8),
    Take,
    Done(usize, u8),
    Advance(u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0..5u8).prop_map(Step::Add),
        (0..5u8, 0..30u8).prop_map(|(key, seconds)| Step::AddWithin(key, seconds)),
        Just(Step::Take),
        (any::<usize>(), 0..3u8).prop_map(|(which, how)| Step::Done(which, how)),
        (0..20u8).prop_map(Step::Advance),
    ];
    proptest::collection::vec(step, 0..200)
}

proptest! {
    /// Whatever happens, a key is never in flight twice, and each added key is worked on after
    /// its last addition.
    #[test]
    fn nothing_is_lost_and_nothing_flies_twice(steps in steps()) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let _entered = runtime.enter();
        let (mut queue, mut now) = queue();
        let mut flying: Vec<u8> = Vec::new();
        let mut owed: BTreeSet<u8> = BTreeSet::new();
        for step in steps {
            match step {
                Step::Add(key) => { queue.add(key); owed.insert(key); }
                Step::AddWithin(key, seconds) => {
                    queue.add_within(key, now + u32::from(seconds) * SECOND);
                    owed.insert(key);
                }
                Step::Take => if let Some(key) = queue.take(now) {
                    prop_assert!(!flying.contains(&key));
                    owed.remove(&key);
                    flying.push(key);
                },
                Step::Done(which, how) if !flying.is_empty() => {
                    let key = flying.remove(which % flying.len());
                    let how = [Done::AwaitChange, Done::After(SECOND), Done::Failed][usize::from(how)];
                    if how == Done::Failed { owed.insert(key); }
                    queue.done(key, how, now, 0.5);
                }
                Step::Done(..) => {}
                Step::Advance(seconds) => now += u32::from(seconds) * SECOND,
            }
        }
        for key in flying.drain(..) { queue.done(key, Done::AwaitChange, now, 0.0); }
        now += 600 * SECOND;
        while let Some(key) = queue.take(now) {
            owed.remove(&key);
            queue.done(key, Done::AwaitChange, now, 0.0);
        }
        prop_assert!(owed.is_empty(), "never worked on: {owed:?}");
    }
}
