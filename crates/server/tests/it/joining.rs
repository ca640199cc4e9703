//! Joining by token: who gets a certificate, and who learns nothing.
use orrery_client::identity::{self, JoinError, Joiner, Renewal};
use orrery_client::{Commander, Endpoint};
use orrery_hub::ObjectName;
use orrery_pki::{
    Authority, Fingerprint, Identity, IssueRequest, JoinToken, LiveTls, Requested, Role, SpiffeId,
    TlsFiles, TlsMaterial, Validity,
};
use orrery_proto::core::v1::{self as core, JoinTokenSpec};
use orrery_proto::identity::v1 as wire;
use orrery_proto::identity::v1::identity_client::IdentityClient;
use orrery_proto::meta::v1::ObjectMeta;
use orrery_server::IdentityOptions;
use orrery_testkit::world::{World, WorldOptions};
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);

pub async fn world() -> World {
    world_with(IdentityOptions::default()).await
}

pub async fn world_with(identity: IdentityOptions) -> World {
    let identity = IdentityOptions { own: true, ..identity };
    World::start_with(WorldOptions { identity, ..WorldOptions::default() }).await
}

/// A token for agents named `edge-*`, changed by the test.
async fn token(world: &World, change: impl FnOnce(&mut JoinTokenSpec)) -> JoinToken {
    let authority = world.identities.authorities().current().expect("an authority").fingerprint();
    let token = JoinToken::generate(format!("t-{:08x}", rand::random::<u32>()), authority);
    let mut spec = JoinTokenSpec {
        role: Some("agent".into()),
        peer: Some("edge-*".into()),
        secret_hash: Some(token.hash().to_string()),
        ..JoinTokenSpec::default()
    };
    change(&mut spec);
    let metadata = ObjectMeta { name: token.id().to_owned(), ..ObjectMeta::default() };
    let resource = core::JoinToken { metadata: Some(metadata), spec: Some(spec), ..<_>::default() };
    world.hub.resources().expect("a kind").create(&resource).await.expect("a good token");
    token
}

/// Joins, and keeps the files in a folder.
async fn join(
    url: &str,
    token: &JoinToken,
    role: Role,
    name: &str,
    folder: &std::path::Path,
) -> Result<TlsFiles, JoinError> {
    let files = TlsFiles::in_folder(folder);
    identity::join(url, token, role, name, &files).await.map(|()| files)
}

fn read(files: &TlsFiles) -> TlsMaterial {
    files.load().expect("readable").expect("all three")
}

fn user(world: &World) -> TlsMaterial {
    named(world, "admin")
}

fn named(world: &World, name: &str) -> TlsMaterial {
    let request = IssueRequest::new(Role::User, name).group("orrery:admins");
    let issued = world.identities.issue(&request, DAY).expect("issued");
    issued.material().expect("usable")
}

#[tokio::test]
async fn a_machine_joins_with_a_token_and_nothing_else() {
    let world = world().await;
    let token = token(&world, |spec| spec.uses = Some(2)).await;
    let folder = tempfile::tempdir().expect("a folder");
    let name = folder.path().join("identity");
    let files = join(&world.url, &token, Role::Agent, "edge-1", &name).await.expect("joined");
    let identity = read(&files).identity().clone();
    assert_eq!((identity.role(), identity.name()), (Some(Role::Agent), Some("edge-1")));

    // It is that agent, and no person.
    let endpoint = world.endpoint(Some(read(&files)));
    let Err(refused) = Commander::connect(&endpoint).await else { panic!("an agent commands") };
    assert!(refused.to_string().contains("not for user"), "{refused}");
    Commander::connect(&world.endpoint(Some(user(&world)))).await.expect("a person commands");

    let used = ObjectName::new("", token.id());
    let token = world.until::<core::JoinToken>(&used, |token| token.status.is_some()).await;
    let status = token.status.expect("a status");
    assert_eq!((status.used, status.last_peer.as_str()), (1, "edge-1"));
}

#[tokio::test]
async fn a_certificate_is_renewed_for_the_same_key_and_a_new_root_is_learned() {
    let world = world().await;
    let token = token(&world, |_| {}).await;
    let folder = tempfile::tempdir().expect("a folder");
    let files =
        join(&world.url, &token, Role::Agent, "edge-1", folder.path()).await.expect("joined");
    let live = LiveTls::from_files(&files).expect("readable").expect("all three");
    let endpoint = Endpoint::live(&world.url, Some(live.clone())).expect("our own address");
    let renewal = Renewal::new(endpoint.clone(), files.clone(), live.clone());
    let before = live.current().0.identity().clone();
    renewal.renew().await.expect("renewed");
    let after = read(&files).identity().clone();
    assert_ne!(after.serial, before.serial);
    assert_eq!((after.key, after.spiffe.clone()), (before.key, before.spiffe));
    assert_eq!(live.current().0.identity().serial, after.serial, "it is used without a restart");

    // The authority is rotated: the old certificate is still good, and the server says that it goes.
    let person = world.endpoint(Some(user(&world)));
    let ann = world.endpoint(Some(named(&world, "ann")));
    let roots = identity::rotate(&person, false, false).await.expect("rotated");
    assert_eq!(roots.matches("BEGIN CERTIFICATE").count(), 2);
    assert!(identity::trust(&endpoint).await.expect("still trusted").renew);
    let held = endpoint.connect().await.expect("with the old certificate, and held");
    renewal.renew().await.expect("renewed by the new authority");
    assert!(!identity::trust(&endpoint).await.expect("trusted").renew);
    assert_eq!(read(&files).root_certificates().len(), 2);

    // Nobody finishes it who would be locked out by that.
    let refused = identity::rotate(&person, true, false).await.expect_err("it would be locked out");
    assert!(refused.to_string().contains("trusted no longer"), "{refused}");
    identity::trust(&person).await.expect("nothing has changed");

    // The rotation is finished: who was left behind is refused, who has renewed goes on.
    let left_behind = Endpoint::new(&world.url, Some(user(&world))).expect("our own address");
    let stale = TlsMaterial::clone(&read(&files));
    let open = Commander::connect(&ann).await.expect("the old certificate is still good");
    let refused = identity::rotate(&left_behind, true, false).await.expect_err("somebody is there");
    assert!(refused.to_string().contains(": user/ann;"), "{refused}");
    assert!(refused.to_string().contains("--force"), "{refused}");
    assert!(!refused.to_string().contains("version"), "{refused}");
    open.discover().await.expect("nothing has changed");
    drop(held);
    drop(open);
    identity::rotate(&left_behind, true, true).await.expect("finished");
    assert_eq!(stale.root_certificates().len(), 2);
    identity::trust(&endpoint).await.expect("the new certificate is good");
    let old = identity::trust(&person).await;
    assert!(old.is_err(), "the old authority is trusted no longer: {old:?}");
}

/// Who is disabled gets no certificate that would be refused, and no use of the token is lost.
#[tokio::test]
async fn who_is_disabled_does_not_join() {
    let world = world().await;
    let token = token(&world, |spec| spec.uses = Some(1)).await;
    let folder = tempfile::tempdir().expect("a folder");
    let spec = core::RevocationSpec {
        role: Some("agent".into()),
        peer: Some("edge-1".into()),
        ..core::RevocationSpec::default()
    };
    let metadata = ObjectMeta { name: "stolen".into(), ..ObjectMeta::default() };
    let revocation =
        core::Revocation { metadata: Some(metadata), spec: Some(spec), ..<_>::default() };
    world.hub.resources().expect("a kind").create(&revocation).await.expect("revoked");
    let before = world.identities.issue(&IssueRequest::new(Role::Agent, "edge-1"), DAY);
    let before = before.expect("issued").material().expect("usable");
    let before = Endpoint::new(&world.url, Some(before)).expect("our own address");
    while identity::trust(&before).await.is_ok() {
        tokio::task::yield_now().await;
    }
    let refused = join(&world.url, &token, Role::Agent, "edge-1", folder.path()).await;
    let refused = refused.expect_err("it is disabled").to_string();
    assert!(refused.contains("disabled by a Revocation"), "{refused}");
    join(&world.url, &token, Role::Agent, "edge-2", folder.path()).await.expect("the use is left");
}

/// What is kept is used; a new token joins anew, and one that is of no use does no harm.
#[tokio::test]
async fn what_is_kept_is_used_until_it_ends() {
    let world = world().await;
    let folder = tempfile::tempdir().expect("a folder");
    let files = TlsFiles::in_folder(folder.path());
    let joiner = |token: Option<&JoinToken>, name: &str| Joiner {
        server: world.url.clone(),
        token: token.map(|token| token.to_text().to_string()),
        role: Role::Agent,
        name: name.to_owned(),
        files: files.clone(),
    };
    let serial = || read(&files).identity().serial.clone();
    assert!(joiner(None, "edge-1").member().await.expect("nothing is kept").is_none());
    let none = joiner(None, "edge-1").must_join().await.expect_err("nothing to join with");
    assert!(none.to_string().contains("--token"), "{none}");

    let first = token(&world, |spec| spec.uses = Some(1)).await;
    joiner(Some(&first), "edge-1").must_join().await.expect("joined");
    let joined = serial();
    joiner(Some(&first), "edge-1").must_join().await.expect("its one use is not needed again");
    joiner(None, "edge-1").must_join().await.expect("nor is the token");
    assert_eq!(serial(), joined);

    let second = token(&world, |_| {}).await;
    joiner(Some(&second), "edge-1").must_join().await.expect("joined anew");
    let anew = serial();
    assert_ne!(anew, joined);
    let guessed = JoinToken::generate("nobody", second.authority());
    joiner(Some(&guessed), "edge-1").must_join().await.expect("what is kept is good");
    assert_eq!(serial(), anew);
    let other = joiner(Some(&second), "edge-2").must_join().await.expect_err("edge-1's");
    assert!(other.to_string().contains("/agent/edge-1"), "{other}");

    // Broken: without a token it says so, with one it is mended.
    std::fs::write(folder.path().join("certificate.pem"), "nonsense").expect("written");
    let broken = joiner(None, "edge-1").must_join().await.expect_err("it is broken");
    assert!(broken.to_string().contains("cannot be used"), "{broken}");
    joiner(Some(&second), "edge-1").must_join().await.expect("mended");
    assert_ne!(serial(), anew);
}

/// The word for the honest, and nothing for the rest.
#[tokio::test]
async fn tokens_that_are_not_good() {
    let world = world().await;
    let folder = tempfile::tempdir().expect("a folder");
    let nothing = "the join token is not good here";

    let good = token(&world, |spec| spec.uses = Some(1)).await;
    let check = async |token: &JoinToken, role, name: &str, expect: &str| {
        let refused = join(&world.url, token, role, name, folder.path()).await;
        let refused = refused.expect_err("refused").to_string();
        assert!(refused.contains(expect), "{refused}, expected {expect}");
        assert!(!folder.path().join("certificate.pem").exists(), "nothing is left behind");
    };
    check(&good, Role::Agent, "core-1", "is for agent \"edge-*\"").await;
    check(&good, Role::Driver, "edge-1", "not for driver").await;
    check(&good, Role::Server, "edge-1", "not for server").await;

    // Of another name, and with a guessed secret: the same answer.
    let unknown = JoinToken::generate("nobody", good.authority());
    check(&unknown, Role::Agent, "edge-1", nothing).await;
    let guessed = JoinToken::generate(good.id(), good.authority());
    check(&guessed, Role::Agent, "edge-1", nothing).await;

    let expired = token(&world, |spec| {
        spec.expires_at = Some(prost_types::Timestamp { seconds: 1, nanos: 0 });
    })
    .await;
    check(&expired, Role::Agent, "edge-1", "has expired").await;

    // Of another server: the secret is not even sent.
    let elsewhere = JoinToken::generate(good.id(), Fingerprint::of(b"another authority"));
    check(&elsewhere, Role::Agent, "edge-1", "not the one that the token was made for").await;

    // Replayed beyond its uses.
    let used = tempfile::tempdir().expect("a folder");
    join(&world.url, &good, Role::Agent, "edge-1", used.path()).await.expect("the one use");
    check(&good, Role::Agent, "edge-2", "as often as it may be").await;
}

#[tokio::test]
async fn many_join_at_once_and_no_more_than_may() {
    let world = world().await;
    let token = token(&world, |spec| spec.uses = Some(5)).await;
    let folder = tempfile::tempdir().expect("a folder");
    let joins = (0..12).map(|n| {
        let (name, folder) = (format!("edge-{n}"), folder.path().join(n.to_string()));
        let (url, token) = (&world.url, &token);
        async move { join(url, token, Role::Agent, &name, &folder).await.is_ok() }
    });
    let joined = futures::future::join_all(joins).await.into_iter().filter(|good| *good).count();
    assert_eq!(joined, 5);
}

/// Requests that ask for more than their token gives.
#[tokio::test]
async fn requests_that_ask_for_something_else() {
    let world = world().await;
    let token = token(&world, |_| {}).await;
    let current = world.identities.authorities().current().expect("an authority");
    let domain = current.authority().expect("it signs").trust_domain().clone();
    let endpoint = Endpoint::pinned(&world.url, token.authority()).expect("our own address");
    let mut client = IdentityClient::new(endpoint.connect().await.expect("it listens"));
    let id = |role, name: &str| SpiffeId::new(&domain, role, name).expect("an id");
    let cases = [
        (Requested::for_id(&id(Role::Agent, "edge-1"), "edge-1"), None),
        (Requested::generate("edge-1"), None),
        (Requested::for_id(&id(Role::Agent, "edge-2"), "edge-1"), Some("asks for")),
        (Requested::for_id(&id(Role::Server, "edge-1"), "edge-1"), Some("asks for")),
        (Requested::generate("admin"), Some("asks for \"admin\"")),
    ];
    for (requested, expect) in cases {
        let request = mk_request(&token, requested.expect("made").der().to_vec());
        match (client.join(request).await, expect) {
            (Ok(_), None) => {}
            (Err(status), Some(expect)) => {
                assert!(status.message().contains(expect), "{status}");
            }
            (found, expect) => panic!("{found:?}, expected {expect:?}"),
        }
    }
    let garbage = client.join(mk_request(&token, b"garbage".to_vec())).await;
    assert!(garbage.expect_err("refused").message().contains("cannot be read"));
    let huge = client.join(mk_request(&token, vec![0; 20_000])).await;
    assert!(huge.expect_err("refused").message().contains("larger than"));
}

fn mk_request(token: &JoinToken, request: Vec<u8>) -> wire::JoinRequest {
    wire::JoinRequest {
        token: token.id().to_owned(),
        secret: token.secret().to_vec(),
        role: "agent".into(),
        name: "edge-1".into(),
        request,
    }
}

/// Only machines renew by themselves, and only for the key that they hold.
#[tokio::test]
async fn renewals_that_are_refused() {
    let world = world().await;
    let issue = |role, name: &str| {
        let request = IssueRequest::new(role, name);
        world.identities.issue(&request, DAY).expect("issued").material().expect("usable")
    };
    let renew = async |who: TlsMaterial| {
        let endpoint = world.endpoint(Some(who));
        let mut client = IdentityClient::new(endpoint.connect().await.expect("it listens"));
        let request = Requested::generate("edge-1").expect("made").der().to_vec();
        client.renew(wire::RenewRequest { request }).await.expect_err("refused")
    };
    let other_key = renew(issue(Role::Agent, "edge-1")).await;
    assert!(other_key.message().contains("another key"), "{other_key}");
    let person = renew(issue(Role::User, "alice")).await;
    assert!(person.message().contains("only agents"), "{person}");
    let server = renew(issue(Role::Server, "server")).await;
    assert!(server.message().contains("only agents"), "{server}");
}

/// With an authority that was brought without its key, nobody joins, and the message says so.
#[tokio::test]
#[allow(clippy::disallowed_methods, reason = "certificates are judged by the real clock")]
async fn an_authority_without_its_key_signs_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let validity = Validity::starting(std::time::SystemTime::now(), DAY);
    let authority = Authority::generate(&"corp.test".parse().expect("a domain"), validity);
    let authority = authority.expect("an authority");
    authority.write_to(folder.path()).expect("written");
    let request = IssueRequest::new(Role::Server, "server").ip([127, 0, 0, 1]);
    let tls = authority.issue(&request, validity).expect("issued");
    let tls = tls.write_to(&folder.path().join("server")).expect("written");
    let without = IdentityOptions {
        authority: Some(folder.path().join("ca.pem")),
        ..IdentityOptions::default()
    };
    let options = WorldOptions { tls, identity: without, ..WorldOptions::default() };
    let world = World::start_with(options).await;
    let current = world.identities.authorities().current().expect("it is known");
    let token = JoinToken::generate("t", current.fingerprint());
    let refused = join(&world.url, &token, Role::Agent, "a", &folder.path().join("a")).await;
    let Err(JoinError::Refused { cause, .. }) = refused else { panic!("{refused:?}") };
    assert!(cause.contains("brought without one"), "{cause}");
    let Identity { fingerprint, .. } =
        Identity::of_pem(authority.certificate_pem().as_bytes()).expect("ours");
    assert_eq!(fingerprint, current.fingerprint());
}
