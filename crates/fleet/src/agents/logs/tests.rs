use super::*;
use crate::middleware::Outbox;

fn stage() -> (Arc<Logs>, Arc<Outbox>) {
    let senders = Arc::new(Senders::default());
    let outbox = Arc::new(Outbox::default());
    senders.insert("edge", Session { epoch: 3, outbox: outbox.clone(), ..Session::default() });
    (Arc::new(Logs::new(senders)), outbox)
}

async fn sent(outbox: &Outbox) -> Vec<Message> {
    let messages = outbox.next().await.expect("open");
    messages.into_iter().filter_map(|message| message.message).collect()
}

fn chunk(stream: &str, text: &str) -> LogChunk {
    LogChunk { stream: stream.into(), data: text.into(), ..LogChunk::default() }
}

fn data(stream: &str, text: &str) -> Option<Output> {
    Some(Output::Data(chunk(stream, text)))
}

fn wanted() -> LogRequest {
    LogRequest { id: "i-1".into(), ..LogRequest::default() }
}

#[tokio::test]
async fn output_is_asked_for_read_and_paid_for() {
    let (logs, outbox) = stage();
    let mut reading =
        logs.open("edge", LogRequest { follow: true, tail_lines: Some(5), ..wanted() });
    let asked = sent(&outbox).await;
    let [Message::Log(request)] = asked.as_slice() else { panic!("{asked:?}") };
    let expect = (true, Some(5), CREDIT, "i-1");
    assert_eq!((request.follow, request.tail_lines, request.credit, &*request.id), expect);
    let name = request.stream.clone();
    logs.chunk("edge", chunk(&name, "one"));
    logs.chunk("liar", chunk(&name, "not mine"));
    logs.chunk("edge", chunk(&name, "two"));
    assert_eq!(
        (reading.next().await, reading.next().await),
        (data(&name, "one"), data(&name, "two"))
    );
    let credit = LogCredit { stream: name.clone(), chunks: 2 };
    assert_eq!(sent(&outbox).await, [Message::LogCredit(credit)]);
    logs.end("edge", LogEnd { stream: name, problem: "unreadable".into() });
    assert_eq!(reading.next().await, Some(Output::Problem("unreadable".into())));
    assert_eq!(reading.next().await, None);
    assert!(logs.streams.lock().is_empty());
}

#[tokio::test]
async fn a_reader_that_goes_says_so() {
    let (logs, outbox) = stage();
    let reading = logs.open("edge", wanted());
    sent(&outbox).await;
    drop(reading);
    assert!(matches!(sent(&outbox).await.as_slice(), [Message::LogCancel(_)]));
    assert!(logs.streams.lock().is_empty());
}

#[tokio::test]
async fn an_agent_that_goes_ends_its_streams() {
    let (logs, _outbox) = stage();
    let mut reading = logs.open("edge", wanted());
    logs.lost("edge", 2);
    logs.lost("other", 9);
    assert_eq!(logs.streams.lock().len(), 1, "it was another session");
    logs.lost("edge", 3);
    assert!(matches!(reading.next().await, Some(Output::Away(_))));
    assert_eq!(reading.next().await, None);
    let mut absent = logs.open("ghost", wanted());
    let Some(Output::Away(problem)) = absent.next().await else { panic!("no problem") };
    assert_eq!(problem, "node \"ghost\" is not connected");
}

/// An agent that sends more than it may loses its stream, and nobody waits for it.
#[tokio::test]
async fn what_is_sent_without_credit_ends_the_stream() {
    let (logs, outbox) = stage();
    let mut reading = logs.open("edge", wanted());
    let asked = sent(&outbox).await;
    let [Message::Log(request)] = asked.as_slice() else { panic!("{asked:?}") };
    for _ in 0..ROOM + 1 {
        logs.chunk("edge", chunk(&request.stream, "x"));
    }
    let mut pieces = 0;
    while let Some(Output::Data(_)) = reading.next().await {
        pieces += 1;
    }
    assert_eq!(pieces, ROOM);
}
