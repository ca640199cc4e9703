//! Commands over WebSockets, word by word: the channels, who may, and how they end.
use crate::access::{bind, certificate, meta, until};
use crate::joining::world;
use crate::lasting::{unbind, until_cancelled, workload};
use crate::wire::{Tls, address, open};
use axum::http::Request;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::{SinkExt as _, StreamExt as _};
use orrery_fleet::middleware::Peer;
use orrery_hub::ObjectName;
use orrery_pki::{ADMINS, BearerToken, Role, TlsMaterial};
use orrery_proto::core::v1 as core;
use orrery_proto::fleet::v1::{
    ExecEnd, ExecEvent, ExecInput, ExecOutput, ExecStart, TerminalSize, ToServer,
    exec_event::Message as Event, exec_input::Message as Word, server_message::Message as Told,
    to_server,
};
use orrery_testkit::agent::{FakeAgent, InProcess};
use orrery_testkit::world::{SOON, World};
use serde_json::Value;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::{Error, Message};

const EXEC: &str = "/apis/apps.orrery.dev/v1/namespaces/demo/workloads/web/exec";
const V5: &str = "v5.channel.k8s.io";
const CAT: &str = "command=cat&stdin=true";

/// A server with a workload, and the agent that runs its one copy.
pub async fn stage() -> (World, FakeAgent) {
    let world = world().await;
    world.project("demo").await;
    let edge = InProcess::new(&world, Peer::default());
    let mut agent = FakeAgent::connect(&edge, "edge-1").await.unwrap();
    world.hub.resources().unwrap().apply(&workload("web")).await.unwrap();
    let copy = agent.assignment().await;
    agent.report(&copy.id, "Running", copy.generation).await;
    (world, agent)
}

/// Somebody with a command; an error is the code of the refusal and its message.
async fn run(
    world: &World,
    who: &TlsMaterial,
    query: &str,
    headers: &[(&str, &str)],
) -> Result<Client, (u16, String)> {
    let socket = socket(world, who, &format!("{EXEC}?{query}"), headers).await?;
    Ok(Client { socket })
}

/// A socket at a path; an error is the code of the refusal and its message.
pub async fn socket(
    world: &World,
    who: &TlsMaterial,
    path: &str,
    headers: &[(&str, &str)],
) -> Result<WebSocketStream<Tls>, (u16, String)> {
    let tls = open(address(world), who, b"http/1.1").await;
    let host = address(world).to_string();
    let key = "dGhlIHNhbXBsZSBub25jZQ==";
    let request = Request::get(format!("wss://{host}{path}"))
        .header("host", &host)
        .header("connection", "Upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", key);
    let request =
        headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    match tokio_tungstenite::client_async(request.body(()).unwrap(), tls).await {
        Ok((socket, _)) => Ok(socket),
        Err(Error::Http(refusal)) => {
            let body = String::from_utf8_lossy(refusal.body().as_deref().unwrap_or_default());
            // It may come in chunks, with their sizes around it.
            let status = body.find('{').zip(body.rfind('}'));
            let status = status.map(|(begin, end)| &body[begin..=end]).unwrap_or_default();
            let status: Value = serde_json::from_str(status).unwrap_or_default();
            let message = status["message"].as_str().unwrap_or_default().to_owned();
            Err((refusal.status().as_u16(), message))
        }
        Err(other) => panic!("{other}"),
    }
}

struct Client {
    socket: WebSocketStream<Tls>,
}

impl Client {
    async fn say(&mut self, message: impl Into<Vec<u8>>) {
        self.socket.send(Message::binary(message.into())).await.unwrap();
    }

    /// The next message: its channel and its data.
    async fn hear(&mut self) -> (u8, Vec<u8>) {
        loop {
            let next = tokio::time::timeout(SOON, self.socket.next()).await.expect("in time");
            match next.expect("it is open").unwrap() {
                Message::Binary(message) => return (message[0], message[1..].to_vec()),
                Message::Ping(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// How it ended: the status on the last channel, and the code of the close.
    async fn ended(mut self) -> (Value, CloseCode) {
        let mut status = Value::Null;
        loop {
            let next = tokio::time::timeout(SOON, self.socket.next()).await.expect("in time");
            match next.expect("it says how it closes").unwrap() {
                Message::Binary(message) if message[0] == 3 && 1 < message.len() => {
                    status = serde_json::from_slice(&message[1..]).unwrap();
                }
                Message::Close(frame) => return (status, frame.expect("a code").code),
                _ => {}
            }
        }
    }
}

/// The agent's side of one command.
struct Command<'a> {
    agent: &'a mut FakeAgent,
    stream: String,
    start: ExecStart,
    heard: Vec<Word>,
}

impl<'a> Command<'a> {
    async fn begun(agent: &'a mut FakeAgent) -> Self {
        loop {
            if let Told::Exec(order) = agent.next().await.expect("the connection is open")
                && let Some(start) = order.start
            {
                return Self { agent, stream: order.stream, start, heard: Vec::new() };
            }
        }
    }

    async fn say(&self, event: Event) {
        let event = Some(ExecEvent { message: Some(event) });
        let output = ExecOutput { stream: self.stream.clone(), event };
        let message = Some(to_server::Message::ExecOutput(output));
        self.agent.to_server.send(ToServer { message }).await.unwrap();
    }

    /// The next word that is no credit.
    async fn hear(&mut self) -> Word {
        while self.heard.is_empty() {
            if let Told::Exec(order) = self.agent.next().await.expect("the connection is open")
                && order.stream == self.stream
            {
                let words = order.input.into_iter().filter_map(|ExecInput { message }| message);
                self.heard.extend(words.filter(|word| !matches!(word, Word::Credit(_))));
            }
        }
        self.heard.remove(0)
    }
}

fn ended(exit_code: i32) -> Event {
    Event::End(ExecEnd { exit_code: Some(exit_code), problem: String::new() })
}

#[tokio::test]
async fn a_command_talks_over_its_channels() {
    let (world, mut agent) = stage().await;
    let admin = certificate(&world, Role::User, "root", Some(ADMINS));
    let query = "command=sh&command=-c&command=a+b&stdin=true&tty=true&stderr=false";
    let protocols = ("sec-websocket-protocol", "v5.channel.k8s.io, v4.channel.k8s.io");
    let mut client = run(&world, &admin, query, &[protocols]).await.unwrap();
    let mut command = Command::begun(&mut agent).await;
    assert_eq!(command.start.command, ["sh", "-c", "a b"]);
    assert!(command.start.tty && command.start.stdin);
    assert_eq!(client.hear().await, (1, Vec::new()), "it says that it has begun");

    client.say(b"\x04{\"Width\":97,\"Height\":31}").await;
    let size = TerminalSize { rows: 31, columns: 97 };
    assert_eq!(command.hear().await, Word::Resize(size));
    command.say(Event::Credit(2)).await;
    command.say(Event::Stdout(b"out".to_vec())).await;
    command.say(Event::Stderr(b"nobody wants this".to_vec())).await;
    command.say(Event::Stdout(b"more".to_vec())).await;
    assert_eq!(client.hear().await, (1, b"out".to_vec()));
    assert_eq!(client.hear().await, (1, b"more".to_vec()));

    // Three pieces, and the end: there is room for two.
    let typed: Vec<u8> = (0..40_000_u32).map(|at| u8::try_from(at % 251).unwrap()).collect();
    client.say([&[0], typed.as_slice()].concat()).await;
    client.say([255, 0]).await;
    let mut read = Vec::new();
    for _ in 0..2 {
        let Word::Data(data) = command.hear().await else { panic!("no data") };
        read.extend(data);
    }
    assert_eq!(read.len(), 32 << 10, "as much as there is room for");
    command.say(Event::Stdout(b"still here".to_vec())).await;
    assert_eq!(
        client.hear().await,
        (1, b"still here".to_vec()),
        "what waits holds up nothing else"
    );
    command.say(Event::Credit(1)).await;
    let Word::Data(rest) = command.hear().await else { panic!("no data") };
    read.extend(rest);
    assert!(read == typed, "all of it, in its order");
    assert_eq!(command.hear().await, Word::End(true));
    command.say(ended(7)).await;
    let (status, code) = client.ended().await;
    assert_eq!(status["details"]["causes"][0]["message"], "7", "{status}");
    assert_eq!(code, CloseCode::Normal);
}

#[tokio::test]
async fn a_command_ends_with_either_side() {
    let (world, mut agent) = stage().await;
    let admin = certificate(&world, Role::User, "root", Some(ADMINS));
    let v4 = [("sec-websocket-protocol", "v4.channel.k8s.io")];
    let client = run(&world, &admin, CAT, &v4).await.unwrap();
    let command = Command::begun(&mut agent).await;
    let stream = command.stream.clone();
    drop(client);
    until_cancelled(&mut agent, &stream).await;

    let mut client = run(&world, &admin, CAT, &v4).await.unwrap();
    let command = Command::begun(&mut agent).await;
    let stream = command.stream.clone();
    client.say([255, 0]).await;
    let (status, code) = client.ended().await;
    assert_eq!((&status["code"], code), (&400.into(), CloseCode::Protocol), "{status}");
    until_cancelled(&mut agent, &stream).await;

    let client = run(&world, &admin, "command=true", &v4).await.unwrap();
    Command::begun(&mut agent).await.say(ended(0)).await;
    assert_eq!(client.ended().await.0["status"], "Success");

    let client = run(&world, &admin, CAT, &v4).await.unwrap();
    Command::begun(&mut agent).await;
    drop(agent);
    let (status, _) = client.ended().await;
    assert_eq!(status["reason"], "InternalError", "{status}");
    assert!(status["message"].as_str().unwrap().contains("connection of its agent"), "{status}");

    // The agent is away by now.
    let client = run(&world, &admin, CAT, &v4).await.unwrap();
    let (status, _) = client.ended().await;
    assert!(status["message"].as_str().unwrap().contains("not connected"), "{status}");
}

#[tokio::test]
async fn a_command_ends_with_the_server() {
    let (world, mut agent) = stage().await;
    let admin = certificate(&world, Role::User, "root", Some(ADMINS));
    let client = run(&world, &admin, CAT, &[("sec-websocket-protocol", V5)]).await.unwrap();
    Command::begun(&mut agent).await;
    let (ended, ()) = tokio::join!(client.ended(), world.stop());
    assert_eq!((&ended.0["code"], ended.1), (&503.into(), CloseCode::Away), "{}", ended.0);
}

#[tokio::test]
async fn a_command_ends_with_the_permission_and_with_the_token() {
    let (world, mut agent) = stage().await;
    bind(&world, "demo", "editor", "ann").await;
    let ann = certificate(&world, Role::User, "ann", None);
    let v5 = [("sec-websocket-protocol", V5)];
    let client = until("the binding counts", async || run(&world, &ann, CAT, &v5).await.ok()).await;
    let stream = Command::begun(&mut agent).await.stream;
    unbind(&world, "ann-editor").await;
    let (status, code) = client.ended().await;
    let words = "cannot create workloads/exec in project \"demo\"";
    assert!(status["message"].as_str().unwrap().contains(words), "{status}");
    assert_eq!((&status["code"], code), (&403.into(), CloseCode::Policy));
    until_cancelled(&mut agent, &stream).await;

    let token = token(&world).await;
    let machine = certificate(&world, Role::Agent, "edge-2", None);
    let protocols = format!("{V5}, {}", among_protocols(&token));
    let protocols = [("sec-websocket-protocol", protocols.as_str())];
    let client =
        until("the token counts", async || run(&world, &machine, CAT, &protocols).await.ok()).await;
    let stream = Command::begun(&mut agent).await.stream;
    let tokens = world.hub.resources::<core::AccessToken>().unwrap();
    tokens.delete(&ObjectName::new("", "robot")).await.unwrap();
    let (status, code) = client.ended().await;
    assert_eq!((&status["code"], code), (&401.into(), CloseCode::Policy), "{status}");
    until_cancelled(&mut agent, &stream).await;
}

/// A token of somebody who may do everything.
pub async fn token(world: &World) -> String {
    let token = BearerToken::generate("robot");
    let spec = core::AccessTokenSpec {
        user: Some("robot".into()),
        groups: vec![ADMINS.into()],
        secret_hash: Some(token.hash().to_string()),
        ..<_>::default()
    };
    let kept =
        core::AccessToken { metadata: meta("", "robot"), spec: Some(spec), ..<_>::default() };
    world.hub.resources().unwrap().create(&kept).await.unwrap();
    token.to_text().to_string()
}

pub fn among_protocols(token: &str) -> String {
    format!("base64url.bearer.authorization.k8s.io.{}", URL_SAFE_NO_PAD.encode(token))
}

/// Who asks, the query, headers, and the code and words of the refusal; nothing where there is none.
type Case<'a> = (&'a TlsMaterial, &'a str, &'a [(&'a str, &'a str)], u16, &'a str);

#[tokio::test]
async fn who_may_not_is_told_so_before_anything_runs() {
    let (world, _agent) = stage().await;
    bind(&world, "demo", "viewer", "ann").await;
    let admin = certificate(&world, Role::User, "root", Some(ADMINS));
    let ann = certificate(&world, Role::User, "ann", None);
    let v5 = ("sec-websocket-protocol", V5);
    let own = format!("https://{}", address(&world));
    let plain = format!("http://{}", address(&world));
    let bearer = format!("{V5}, {}", among_protocols("orrery1.nobody.guessed"));
    let cases: &[Case<'_>] = &[
        (&admin, "command=ls", &[v5], 0, ""),
        (&admin, "command=ls", &[v5, ("origin", &own), ("sec-fetch-site", "same-origin")], 0, ""),
        (&admin, "command=ls", &[v5, ("origin", "https://evil.example")], 403, "web page"),
        (&admin, "command=ls", &[v5, ("origin", "null")], 403, "web page"),
        (&admin, "command=ls", &[v5, ("origin", &plain)], 403, "web page"),
        (&admin, "command=ls", &[v5, ("sec-fetch-site", "cross-site")], 403, "web page"),
        (&admin, "command=ls", &[("sec-websocket-protocol", &bearer)], 401, "Unauthorized"),
        (&ann, "command=ls", &[v5], 403, "cannot create workloads/exec"),
        (&admin, "", &[v5], 400, "there is no command"),
        (&admin, "command=ls&shell=sh", &[v5], 400, "no parameter \"shell\""),
        (&admin, "command=ls&container=x", &[v5], 400, "no copy \"x\""),
        (&admin, "command=ls", &[], 400, "v5.channel.k8s.io or v4.channel.k8s.io"),
        (&admin, "command=ls", &[("sec-websocket-protocol", "channel.k8s.io")], 400, "must be"),
    ];
    for (who, query, headers, code, words) in cases {
        let outcome = run(&world, who, query, headers).await;
        let (said, message) = outcome.err().unwrap_or_default();
        assert_eq!(said, *code, "{query} {headers:?}: {message}");
        assert!(message.contains(words), "{query} {headers:?}: {message}");
    }
    for (method, code) in [("GET", 400), ("POST", 405)] {
        let path = format!("{EXEC}?command=ls");
        let (said, status) = crate::wire::ask(&world, &admin, method, &path, &[], "").await;
        assert_eq!(said, code, "{method}: {status}");
    }
}

/// A browser shows its certificate for any page; what is only read, a page of others does not get to see.
#[tokio::test]
async fn pages_of_others_change_nothing_with_a_certificate() {
    let world = world().await;
    world.project("demo").await;
    let admin = certificate(&world, Role::User, "root", Some(ADMINS));
    let path = EXEC.trim_end_matches("/web/exec");
    let own: &[_] = &[("origin", "https://x"), ("sec-fetch-site", "same-origin")];
    let cross: &[_] = &[("sec-fetch-site", "cross-site")];
    let evil: &[_] = &[("origin", "https://evil.example")];
    let cases =
        [("POST", evil, 403), ("POST", cross, 403), ("POST", own, 422), ("GET", cross, 200)];
    for (method, headers, code) in cases {
        let body = r#"{"metadata":{"name":"web"}}"#;
        let (said, status) = crate::wire::ask(&world, &admin, method, path, headers, body).await;
        assert_eq!(said, code, "{method} {headers:?}: {status}");
    }
}
