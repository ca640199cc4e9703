//! Who is disabled, and whose certificate ends, is out on every port: the API, the drivers', the
//! storage registry's, and where proxies get their configuration.
use crate::access::{certificate, meta, until};
use crate::joining::world;
use crate::wire::{self, Watch};
use axum::http::uri::PathAndQuery;
use orrery_hub::ObjectName;
use orrery_pki::{Authority, IssueRequest, Role, TlsMaterial, Validity};
use orrery_proto::core::v1 as core;
use orrery_proto::fleet::v1::{AgentHello, ToServer, to_server};
use orrery_server::IdentityOptions;
use orrery_testkit::world::{SOON, World};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;

const PROJECTS: &str = "/apis/core.orrery.dev/v1/projects";

/// As much of a proxy's request as says who it is and what it wants.
#[derive(Clone, PartialEq, prost::Message)]
struct DiscoveryRequest {
    #[prost(message, optional, tag = "2")]
    node: Option<Node>,
    #[prost(string, tag = "4")]
    type_url: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Node {
    #[prost(string, tag = "1")]
    id: String,
    #[prost(string, tag = "2")]
    cluster: String,
}

#[derive(Clone, PartialEq, prost::Message)]
struct DiscoveryResponse {
    #[prost(string, tag = "1")]
    version_info: String,
}

/// The stream of a proxy, after its first answer.
async fn discover(world: &World, who: TlsMaterial) -> Proxy {
    let channel = world.endpoint(Some(who)).connect().await.unwrap();
    let mut client = tonic::client::Grpc::new(channel);
    client.ready().await.unwrap();
    let node = Node { id: "web-1".into(), cluster: "shop/web".into() };
    let type_url = "type.googleapis.com/envoy.config.cluster.v3.Cluster".to_owned();
    let (requests, sent) = mpsc::channel(4);
    requests.try_send(DiscoveryRequest { node: Some(node), type_url }).unwrap();
    let path = PathAndQuery::from_static(
        "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources",
    );
    let codec = tonic_prost::ProstCodec::<DiscoveryRequest, DiscoveryResponse>::default();
    let request = tonic::Request::new(ReceiverStream::new(sent));
    let mut answers = client.streaming(request, path, codec).await.unwrap().into_inner();
    assert!(answers.message().await.unwrap().is_some());
    Proxy { _requests: requests, answers }
}

struct Proxy {
    _requests: mpsc::Sender<DiscoveryRequest>,
    answers: tonic::Streaming<DiscoveryResponse>,
}

struct Edge {
    _to_server: mpsc::Sender<ToServer>,
    incoming: orrery_client::agent::Incoming,
}

/// The connection of an agent, after its first answer.
async fn agent(world: &World, who: TlsMaterial, name: &str) -> Edge {
    let hello = AgentHello {
        name: name.to_owned(),
        version: orrery_client::VERSION.to_owned(),
        ..AgentHello::default()
    };
    let (to_server, outgoing) = mpsc::channel(4);
    to_server.try_send(ToServer { message: Some(to_server::Message::Hello(hello)) }).unwrap();
    let endpoint = world.endpoint(Some(who));
    let transport: &dyn orrery_client::agent::Transport = &endpoint;
    let mut incoming = transport.connect(ReceiverStream::new(outgoing)).await.unwrap();
    assert!(incoming.next().await.unwrap().is_ok());
    Edge { _to_server: to_server, incoming }
}

/// Everybody has one open connection on the port of theirs.
struct Open {
    watch: Watch,
    drivers: wire::Tls,
    controllers: wire::Tls,
    hosts: wire::Tls,
    proxy: Proxy,
    agent: Edge,
}

const EVERYBODY: [(Role, &str); 6] = [
    (Role::User, "eve"),
    (Role::Driver, "aws"),
    (Role::Controller, "host-1"),
    (Role::Host, "host-1"),
    (Role::Proxy, "web.shop"),
    (Role::Agent, "edge-1"),
];

impl Open {
    async fn all(world: &World, issue: impl Fn(Role, &str) -> TlsMaterial) -> Self {
        let [user, driver, controller, host, proxy, edge] =
            EVERYBODY.map(|(role, name)| issue(role, name));
        let raw = async |address: SocketAddr, who| wire::open(address, &who, b"h2").await;
        let mut watch = Watch::open(world, &user, PROJECTS, None).await;
        assert_eq!(watch.next().await.unwrap()["type"], "ADDED");
        Self {
            watch,
            drivers: raw(world.drivers, driver).await,
            controllers: raw(world.storage, controller).await,
            hosts: raw(world.storage, host).await,
            proxy: discover(world, proxy).await,
            agent: agent(world, edge, "edge-1").await,
        }
    }

    async fn end(mut self) {
        let told = async {
            loop {
                match self.watch.next().await {
                    Some(event) if event["type"] == "ERROR" => return Some(event),
                    Some(_) => {}
                    None => return None,
                }
            }
        };
        let told = told.await.expect("the watch ends with a word");
        assert_eq!(told["object"]["code"], 401, "{told}");
        wire::ended(self.drivers).await;
        wire::ended(self.controllers).await;
        wire::ended(self.hosts).await;
        let proxy = async {
            loop {
                match self.proxy.answers.message().await {
                    Ok(Some(_)) => {}
                    Ok(None) => panic!("it ends without a word"),
                    Err(status) => return status,
                }
            }
        };
        let status = tokio::time::timeout(SOON, proxy).await.expect("the proxy's stream ends");
        assert_eq!(status.code(), tonic::Code::Unauthenticated, "{status}");
        let agent = async { while let Some(Ok(_)) = self.agent.incoming.next().await {} };
        tokio::time::timeout(SOON, agent).await.expect("the agent's connection ends");
    }
}

/// Whether somebody is let in on a port now.
async fn answered(address: SocketAddr, who: &TlsMaterial) -> bool {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut tls = wire::open(address, who, b"h2").await;
    // The preface of HTTP/2 and an empty SETTINGS frame, which a server answers with its own.
    let said = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    let mut first = [0; 9];
    let talk = async {
        tls.write_all(said).await?;
        tls.read_exact(&mut first).await
    };
    tokio::time::timeout(SOON, talk).await.is_ok_and(|read| read.is_ok())
}

/// The name of a resource, in which there are no dots.
fn revocation(role: &str, name: &str) -> String {
    format!("{role}-{}", name.replace('.', "-"))
}

#[tokio::test]
async fn who_is_disabled_is_out_on_every_port() {
    let world = world().await;
    let issue = |role: Role, name: &str| {
        let group = (role == Role::User).then_some("orrery:admins");
        certificate(&world, role, name, group)
    };
    let port = |role: Role| match role {
        Role::Driver => world.drivers,
        Role::Controller | Role::Host => world.storage,
        Role::User | Role::Proxy | Role::Agent | Role::Server => wire::address(&world),
    };
    let open = Open::all(&world, issue).await;
    for (role, name) in EVERYBODY {
        assert!(answered(port(role), &issue(role, name)).await, "{role} {name} is welcome");
    }
    for (role, name) in EVERYBODY {
        let (role, peer) = (Some(role.to_string()), Some(name.to_owned()));
        let spec = core::RevocationSpec { role, peer, ..<_>::default() };
        let metadata = meta("", &revocation(spec.role(), name));
        let resource = core::Revocation { metadata, spec: Some(spec), ..<_>::default() };
        world.hub.resources().unwrap().create(&resource).await.unwrap();
    }
    open.end().await;
    for (role, name) in EVERYBODY {
        until("it is refused", async || {
            (!answered(port(role), &issue(role, name)).await).then_some(())
        })
        .await;
        // The neighbour is not touched, and neither is who is called alike in another role.
        assert!(answered(port(role), &issue(role, "neighbour")).await, "{role}");
    }
    assert!(answered(wire::address(&world), &issue(Role::User, "aws")).await);

    // Enabled again.
    let revocations = world.hub.resources::<core::Revocation>().unwrap();
    for (role, name) in EVERYBODY {
        revocations.delete(&ObjectName::new("", revocation(role.as_str(), name))).await.unwrap();
        until("it is welcome again", async || {
            answered(port(role), &issue(role, name)).await.then_some(())
        })
        .await;
    }
}

/// A certificate that ends, ends what was opened with it.
#[tokio::test]
async fn who_has_a_certificate_that_ends_is_out_on_every_port() {
    let world = world().await;
    let issue = |role: Role, name: &str| {
        let mut request = IssueRequest::new(role, name);
        request.group = (role == Role::User).then(|| "orrery:admins".to_owned());
        let lifetime = Duration::from_secs(10);
        world.identities.issue(&request, lifetime).unwrap().material().unwrap()
    };
    Open::all(&world, issue).await.end().await;
}

/// An authority of the user's signs for more than one trust domain: the names of another one mean nothing
/// here, whoever they claim to be.
#[tokio::test]
#[allow(clippy::disallowed_methods, reason = "certificates are judged by the real clock")]
async fn another_trust_domain_of_the_same_authority_is_out_on_every_port() {
    let folder = tempfile::tempdir().unwrap();
    let day = Duration::from_secs(86_400);
    let validity = Validity::starting(std::time::SystemTime::now(), day);
    let authority = Authority::generate(&"corp.test".parse().unwrap(), validity).unwrap();
    authority.write_to(folder.path()).unwrap();
    let elsewhere = Authority::from_pem(
        authority.certificate_pem(),
        &authority.key_pem(),
        Some("elsewhere.test".parse().unwrap()),
    );
    let elsewhere = elsewhere.unwrap();
    let identity = IdentityOptions {
        authority: Some(folder.path().join("ca.pem")),
        authority_key: Some(folder.path().join("ca-key.pem")),
        ..IdentityOptions::default()
    };
    let world = crate::joining::world_with(identity).await;
    let cases = [
        (Role::Server, wire::address(&world)),
        (Role::User, wire::address(&world)),
        (Role::Driver, world.drivers),
        (Role::Controller, world.storage),
    ];
    for (role, port) in cases {
        let request = IssueRequest::new(role, "admin");
        let ours = authority.issue(&request, validity).unwrap().material().unwrap();
        assert!(answered(port, &ours).await, "{role} is welcome");
        let theirs = elsewhere.issue(&request, validity).unwrap().material().unwrap();
        assert!(!answered(port, &theirs).await, "{role} of elsewhere is not");
    }
}
