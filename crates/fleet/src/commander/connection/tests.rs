use super::*;
use crate::commander::handler::Words;
use async_trait::async_trait;
use orrery_proto::hub::v1::{DiscoverRequest, DiscoverResponse};

/// Answers at once, or never.
struct Answering {
    at_once: bool,
}

#[async_trait]
impl CommandHandler for Answering {
    async fn handle(&self, _: &Peer, _: Request, _: Words) -> Answer {
        if !self.at_once {
            std::future::pending::<()>().await;
        }
        Answer::One(Box::new(Reply::Discover(DiscoverResponse::default())))
    }
}

struct Client {
    requests: mpsc::Sender<Result<CommanderToServer, String>>,
    answers: Outbound,
}

async fn client(at_once: bool) -> Client {
    let handler = Arc::new(Answering { at_once });
    let connections = CommanderConnections::new(handler, CancellationToken::new());
    let (requests, inbound) = mpsc::channel(2 * REQUESTS_MAX);
    let hello = CommanderHello { name: "one".into(), version: VERSION.to_owned() };
    let hello = commander_to_server::Message::Hello(hello);
    let client = |message| CommanderToServer { message: Some(message), ..Default::default() };
    requests.try_send(Ok(client(hello))).unwrap();
    let inbound = ReceiverStream::new(inbound).boxed();
    let mut answers = connections.connect(Peer::default(), inbound).await.ok().unwrap();
    assert!(matches!(answers.next().await.unwrap().message, Some(Reply::Hello(_))));
    Client { requests, answers }
}

impl Client {
    async fn ask(&self, request_id: u64) {
        let message = Some(commander_to_server::Message::Discover(DiscoverRequest {}));
        let request = CommanderToServer { request_id, message, ..Default::default() };
        self.requests.send(Ok(request)).await.unwrap();
    }

    async fn is_answered(&mut self) -> bool {
        matches!(self.answers.next().await.unwrap().message, Some(Reply::Discover(_)))
    }
}

/// As many as are allowed are always under way; each that is answered makes room for another at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_was_answered_may_ask_again() {
    let mut client = client(true).await;
    let mut id = 1_u64..;
    for _ in 0..REQUESTS_MAX {
        client.ask(id.next().unwrap()).await;
    }
    for count in 0..50 * REQUESTS_MAX {
        assert!(client.is_answered().await, "refused after {count} answers");
        client.ask(id.next().unwrap()).await;
    }
}

#[tokio::test]
async fn more_than_is_allowed_is_refused() {
    let mut client = client(false).await;
    for id in 0..=REQUESTS_MAX {
        client.ask(id as u64).await;
    }
    let refused = client.answers.next().await.unwrap();
    assert_eq!(refused.request_id, REQUESTS_MAX as u64);
    assert!(matches!(refused.message, Some(Reply::Error(_))));
}
