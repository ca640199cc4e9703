use super::*;
use std::sync::Mutex;
use tokio::sync::Notify;

fn started() -> Threads {
    Threads::start(ConnectionThreads::Own).expect("threads")
}

fn name() -> String {
    thread::current().name().unwrap_or_default().to_owned()
}

/// Each connection says where it lives, and then lives until it is told to end.
async fn populated(threads: &Threads, count: usize) -> (Vec<String>, Vec<Arc<Notify>>) {
    let (mut names, mut ends) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let (told, told_where) = oneshot::channel();
        let end = Arc::new(Notify::new());
        let until = end.clone();
        let living = async move {
            told.send(name()).expect("somebody listens");
            until.notified().await;
        };
        threads.take(|| living).await;
        names.push(told_where.await.expect("it lives"));
        ends.push(end);
    }
    (names, ends)
}

fn lives(threads: &Threads) -> Vec<usize> {
    threads.all.iter().map(|thread| thread.lives.load(Ordering::Relaxed)).collect()
}

#[tokio::test]
async fn connections_go_where_the_fewest_are() {
    let threads = started();
    let count = threads.all.len();
    let (mut names, ends) = populated(&threads, 2 * count).await;
    assert_eq!(lives(&threads), vec![2; count]);
    let first = names[0].clone();
    assert!(first.starts_with("connections-"), "{first}");
    ends[0].notify_one();
    while lives(&threads)[0] != 1 {
        tokio::task::yield_now().await;
    }
    names = populated(&threads, 1).await.0;
    assert_eq!(names, [first], "there was room");
    threads.end().await;
}

#[tokio::test]
async fn what_panics_takes_nobody_along() {
    let threads = started();
    let (_, ends) = populated(&threads, threads.all.len()).await;
    threads.take(|| async { panic!("planted") }).await;
    let (_, _ends) = populated(&threads, threads.all.len()).await;
    let alive = ends.iter().filter(|end| 1 < Arc::strong_count(end)).count();
    assert_eq!(alive, threads.all.len());
    threads.end().await;
}

#[tokio::test]
async fn what_panics_before_it_begins_takes_nobody_along() {
    let threads = started();
    for _ in 0..threads.all.len() {
        threads
            .take(|| {
                assert!(name().is_empty(), "planted");
                std::future::ready(())
            })
            .await;
    }
    let (names, _ends) = populated(&threads, threads.all.len()).await;
    assert!(names.iter().all(|name| name.starts_with("connections-")), "{names:?}");
    threads.end().await;
}

#[tokio::test]
async fn whoever_comes_is_served_without_the_thread_too() {
    let (arrivals, _) = mpsc::channel(1);
    let (_, ended) = oneshot::channel();
    let gone = Thread { arrivals, lives: Arc::default(), ended };
    let threads = Threads { all: vec![gone], stop: CancellationToken::new().drop_guard() };
    let (names, _ends) = populated(&threads, 1).await;
    assert!(!names[0].starts_with("connections-"), "{names:?}");
    assert_eq!(lives(&threads), [1]);
}

#[tokio::test]
async fn ending_drops_what_is_left() {
    let threads = started();
    let (_, ends) = populated(&threads, 5).await;
    threads.end().await;
    assert!(ends.iter().all(|end| Arc::strong_count(end) == 1), "all of them are gone");
}

#[tokio::test]
async fn what_takes_long_runs_elsewhere() {
    let threads = started();
    let (told, heard) = oneshot::channel();
    let living = async move {
        let before = name();
        let meanwhile = aside(async { name() }).await;
        told.send((before, meanwhile, name())).expect("somebody listens");
    };
    threads.take(|| living).await;
    let (before, meanwhile, after) = heard.await.expect("it lives");
    assert!(before.starts_with("connections-"), "{before}");
    assert!(!meanwhile.starts_with("connections-"), "{meanwhile}");
    assert_eq!(after, before, "it comes back");
    threads.end().await;
}

#[tokio::test]
async fn what_runs_elsewhere_ends_with_whoever_waits() {
    let threads = started();
    let work = Arc::new(Mutex::new(()));
    let held = work.clone();
    let (began, begun) = oneshot::channel();
    let (tired, patience_ends) = oneshot::channel();
    let living = async move {
        let long = aside(async move {
            let _held = held;
            began.send(()).expect("somebody listens");
            std::future::pending::<()>().await;
        });
        tokio::select! {
            () = long => {}
            _ = patience_ends => {}
        }
    };
    threads.take(|| living).await;
    begun.await.expect("it began");
    tired.send(()).expect("it waits");
    while 1 < Arc::strong_count(&work) {
        tokio::task::yield_now().await;
    }
    threads.end().await;
}

/// Who blocks for a connection is not kept on its processor.
#[tokio::test]
async fn what_blocks_runs_anywhere() {
    let allowed = || Processors::allowed().expect("they are known").numbers();
    let threads = started();
    let (told, where_it_may) = oneshot::channel();
    let blocking = async move {
        let may = tokio::task::spawn_blocking(allowed).await.expect("no panic");
        told.send((allowed(), may)).expect("somebody listens");
    };
    threads.take(|| blocking).await;
    let (connection, blocked) = where_it_may.await.expect("it lives");
    assert_eq!(blocked, allowed());
    let one_for_each = threads.all.len() == blocked.len();
    assert_eq!(connection.len(), if one_for_each { 1 } else { blocked.len() });
    threads.end().await;
}
