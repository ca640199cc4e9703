//! What is special about the engine on etcd: members that die, TLS, names and passwords, sharing.

use std::{
    path::Path,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use orrery_store::{
    Engine, Error, EtcdOptions, Expect, Op, Store, StoreOptions,
    conformance::{self, Cached},
    etcd::{Credentials, EtcdTls, Proofs, Reread},
    open_etcd,
};

use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    etcd_cluster::{Cluster, ServerTls},
    worlds::Etcd,
};

async fn open(options: EtcdOptions) -> Arc<dyn Engine> {
    open_etcd(options).await.unwrap_or_else(|error| panic!("{error}"))
}

async fn store(options: EtcdOptions, prefix: &str) -> Store {
    let options_of = StoreOptions { prefix: prefix.to_owned(), ..StoreOptions::default() };
    Store::start(open(options).await, options_of).await.expect("a store starts")
}

/// A write on one server is seen by the next read on another, always, whatever else is in etcd.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_servers_see_each_others_writes_at_once() {
    let cluster = Cluster::start(1);
    let one = store(cluster.options("shared/"), "objects/").await;
    let two = store(cluster.options("shared/"), "objects/").await;
    assert_eq!(one.incarnation(), two.incarnation(), "they share one life");
    let stranger = open(cluster.options("other/")).await;
    for round in 0..50 {
        let (writer, reader) = if round % 2 == 0 { (&one, &two) } else { (&two, &one) };
        let key = format!("objects/{round}");
        let noise = vec![Op::create(format!("noise/{round}"), "v")];
        stranger.commit(noise).await.expect("another system may use etcd too");
        let blob = vec![Op::create(format!("blobs/{round}"), "v")];
        writer.commit(blob).await.expect("outside of the cache is no reason to wait");
        let revision = writer.commit(vec![Op::create(key.as_str(), "v")]).await.expect("it is new");
        let seen = reader.get(&key).await.expect("it answers").map(|entry| entry.modified);
        assert_eq!(seen, Some(revision), "created in round {round}");
        writer.commit(vec![Op::delete(key.as_str(), revision)]).await.expect("in order");
        assert_eq!(reader.get(&key).await.expect("it answers"), None, "deleted in round {round}");
    }
}

struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Two servers on three members, of which one after the other dies and comes back: every history
/// is still that of a single copy, and the watch tells it without gap or repetition.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn members_that_die_are_not_missed() {
    let etcd = Etcd::new(3);
    let cluster = etcd.cluster();
    let world = Cached::new(etcd);
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    // A failure ends the killing too, instead of waiting for it for ever.
    let _end = StopOnDrop(Arc::clone(&stop));
    let killing = tokio::task::spawn_blocking(move || {
        let mut rng = StdRng::seed_from_u64(3);
        let mut killed = 0;
        while !stopped.load(Ordering::Relaxed) {
            let member = rng.random_range(0..3);
            cluster.lock().kill(member);
            strike_later(rng.random_range(50..800));
            cluster.lock().restart(member);
            strike_later(rng.random_range(200..1500));
            killed += 1;
        }
        killed
    });
    for seed in 0..crate::soak() as u64 {
        conformance::concurrency_with_faults(&world, seed, 40).await;
    }
    stop.store(true, Ordering::Relaxed);
    let killed = killing.await.expect("killing goes well");
    assert!(0 < killed, "members were killed meanwhile");
}

/// Whoever restores an older copy of etcd under a server is not answered with what that copy never held.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_went_back_in_time_is_not_read() {
    let mut cluster = Cluster::start(1);
    let store = store(cluster.options("r/"), "objects/").await;
    let create = async |name: &str| store.commit(vec![Op::create(name, "v")]).await;
    create("objects/kept").await.expect("it is new");
    let mut watcher = store.watch("objects/", store.revision()).expect("now can be watched from");
    let (data, copy) = (cluster.folder().join("m0"), cluster.folder().join("copy"));
    let copied = |from: &Path, to: &Path| {
        let copying = Command::new("cp").arg("-a").args([from, to]).status();
        assert!(copying.expect("it is run").success());
    };
    cluster.kill(0);
    copied(&data, &copy);
    cluster.restart(0);
    for number in 0..9 {
        create(&format!("objects/lost-{number}")).await.expect("it is new");
    }
    cluster.kill(0);
    std::fs::remove_dir_all(&data).expect("it is ours");
    copied(&copy, &data);
    cluster.restart(0);
    let told = async { while watcher.next().await.is_ok() {} };
    tokio::time::timeout(Duration::from_secs(30), told).await.expect("watchers are told");
    let error = store.get("objects/lost-0").await.expect_err("it was never there");
    assert!(error.to_string().contains("went back from revision"), "{error}");
    store.snapshot().await.expect_err("nor can it be listed");
}

/// A commit that is on its way when the engine is closed may happen still; one that comes later is not sent.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_commit_on_its_way_nobody_knows_what_becomes() {
    let cluster = Cluster::start(1);
    let engine = open(cluster.options("r/")).await;
    engine.commit(vec![Op::create("before", "v")]).await.expect("it is connected");
    cluster.freeze(0);
    let sent = {
        let engine = Arc::clone(&engine);
        let commit = async move { engine.commit(vec![Op::create("sent", "v")]).await };
        let mut commit = Box::pin(commit);
        assert!(futures::poll!(&mut commit).is_pending(), "nobody answers");
        commit
    };
    engine.close().await;
    let error = sent.await.expect_err("nobody waits for the answer");
    assert!(matches!(error, Error::Uncertain { .. }), "{error:?}");
    for ops in [Op::create("late", "v"), Op::check("late", Expect::Absent)] {
        let error = engine.commit(vec![ops]).await.expect_err("it is closed");
        assert!(matches!(error, Error::Unavailable { .. }), "{error:?}");
    }
    cluster.thaw(0);
    let another = open(cluster.options("r/")).await;
    assert_eq!(another.get("late").await, Ok(None), "it was not sent");
}

/// Nothing is done by what only looks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_what_writes_nothing_the_outcome_is_known() {
    let cluster = Cluster::start(1);
    let request_timeout = Duration::from_secs(1);
    let engine = open(EtcdOptions { request_timeout, ..cluster.options("r/") }).await;
    engine.commit(vec![Op::create("a", "v")]).await.expect("it is connected");
    cluster.freeze(0);
    let error = engine.commit(vec![Op::check("a", Expect::Present)]).await.expect_err("nobody");
    assert!(matches!(error, Error::Unreachable { .. }), "{error:?}");
    let error = engine.commit(vec![Op::create("b", "v")]).await.expect_err("nobody answers");
    assert!(matches!(error, Error::Uncertain { .. }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_there_is_said_clearly() {
    let mut cluster = Cluster::start(1);
    let request_timeout = Duration::from_secs(1);
    let engine = open(EtcdOptions { request_timeout, ..cluster.options("r/") }).await;
    cluster.kill(0);
    let error = engine.commit(vec![Op::create("a", "v")]).await.expect_err("nobody is there");
    assert!(matches!(error, Error::Unreachable { .. } | Error::Uncertain { .. }), "{error:?}");
    let error = engine.get("a").await.expect_err("nobody is there");
    assert!(error.retryable(), "{error:?}");
    assert!(error.to_string().contains("the store cannot be reached"), "{error}");
    cluster.restart(0);
    engine.commit(vec![Op::create("a", "v")]).await.expect("it is back");
}

/// Reads wait for each other's answers; while nobody is there, that must not add up for those who
/// come last.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_there_is_said_soon_to_everybody() {
    let mut cluster = Cluster::start(1);
    let engine = open(cluster.options("r/")).await;
    cluster.kill(0);
    let began = tokio::time::Instant::now();
    let (first, second) = tokio::join!(engine.current("a/"), engine.current("a/"));
    assert!(began.elapsed() < Duration::from_secs(9), "{:?}", began.elapsed());
    for error in [first.expect_err("nobody"), second.expect_err("nobody")] {
        assert!(error.retryable(), "{error:?}");
        assert_eq!(error.to_string().matches("tcp connect error").count(), 1, "{error}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_and_passwords() {
    let cluster = Cluster::start(1);
    let post = |path: &str, body: &str| cluster.post(0, path, body);
    post("/v3/auth/user/add", r#"{"name":"root","password":"top"}"#);
    post("/v3/auth/role/add", r#"{"name":"root"}"#);
    post("/v3/auth/user/grant", r#"{"user":"root","role":"root"}"#);
    post("/v3/auth/user/add", r#"{"name":"orrery","password":"secret"}"#);
    post("/v3/auth/role/add", r#"{"name":"orrery"}"#);
    // The range from "r/" to "r0", in base64: all keys under the root and no others.
    let range =
        r#"{"name":"orrery","perm":{"permType":"READWRITE","key":"ci8=","range_end":"cjA="}}"#;
    post("/v3/auth/role/grant", range);
    post("/v3/auth/user/grant", r#"{"user":"orrery","role":"orrery"}"#);
    post("/v3/auth/enable", "{}");

    let user = |password: &str| {
        Some(Credentials { name: "orrery".to_owned(), password: password.to_owned() })
    };
    let refused = [
        (EtcdOptions { user: None, ..cluster.options("r/") }, "user name is empty"),
        (EtcdOptions { user: user("wrong"), ..cluster.options("r/") }, "authentication failed"),
        (EtcdOptions { user: user("secret"), ..cluster.options("s/") }, "permission denied"),
    ];
    for (options, reason) in refused {
        let error = open_etcd(options).await.expect_err("etcd does not let us in");
        assert!(error.to_string().contains(reason), "{error}");
    }
    let options = EtcdOptions { user: user("secret"), ..cluster.options("r/") };
    let store = store(options, "").await;
    let revision = store.commit(vec![Op::create("a", "v")]).await.expect("it is allowed");
    let seen = store.get("a").await.expect("it answers").map(|entry| entry.modified);
    assert_eq!(seen, Some(revision));
    let lease = store.engine().acquire("l", "me", Duration::from_secs(30)).await;
    let lease = lease.expect("it answers").expect("nobody has it");
    assert!(store.engine().renew(&lease).await.expect("it answers"));
}

/// Room for a few values of the size below; etcd itself needs some of it.
const SMALL_QUOTA_BYTES: u64 = 4 << 20;
const LARGE_VALUE_BYTES: usize = 1 << 20;

/// Reads go on then, and nothing but a write would tell.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_without_room_is_not_ready_until_somebody_makes_some() {
    let cluster = Cluster::start_small(SMALL_QUOTA_BYTES);
    let engine = open(cluster.options("r/")).await;
    engine.ready().await.expect("there is room");
    let mut at = engine.commit(vec![Op::create("a", "")]).await.expect("it is new");
    let error = loop {
        let value = vec![b'x'; LARGE_VALUE_BYTES];
        match engine.commit(vec![Op::update("a", value, at)]).await {
            Ok(revision) => at = revision,
            Err(error) => break error,
        }
    };
    assert!(error.to_string().contains("out of space"), "{error}");
    assert!(error.to_string().contains("alarm disarm"), "{error}");
    assert_eq!(engine.ready().await, Err(error));
    assert_eq!(engine.health(), Ok(()), "a restart of ours helps nobody");
    engine.get("a").await.expect("reads go on");
    let another = open(cluster.options("r/")).await;
    assert_eq!(another.incarnation(), engine.incarnation(), "a server can start meanwhile");

    engine.compact(at).await.expect("history can be forgotten");
    // etcd forgets by and by; what is not forgotten when its file is packed takes up room still.
    let mut last = Ok(());
    let made_room = tokio::time::timeout(Duration::from_secs(60), async {
        loop {
            cluster.post(0, "/v3/maintenance/defragment", "{}");
            silence_alarm(&cluster);
            last = engine.ready().await;
            if last.is_err() {
                continue;
            }
            match engine.commit(vec![Op::update("a", "small", at)]).await {
                // A write before this one may have happened without an answer.
                Ok(_) | Err(Error::Conflict { .. }) => break,
                Err(error) => last = Err(error),
            }
        }
    });
    assert!(made_room.await.is_ok(), "it takes writes again: {last:?}");
    engine.ready().await.expect("there is room again");
}

/// An alarm is silenced for the member that raised it. A write can be refused before the alarm is raised.
fn silence_alarm(cluster: &Cluster) {
    let said = cluster.post(0, "/v3/maintenance/alarm", r#"{"action":"GET"}"#);
    let member = said.split("\"memberID\":\"").nth(1).and_then(|rest| rest.split('"').next());
    let Some(member) = member else { return };
    let body = format!(r#"{{"action":"DEACTIVATE","memberID":"{member}","alarm":"NOSPACE"}}"#);
    cluster.post(0, "/v3/maintenance/alarm", &body);
}

/// Makes etcd ask for names and passwords.
fn guard(cluster: &Cluster) {
    let post = |path: &str, body: &str| cluster.post(0, path, body);
    post("/v3/auth/user/add", r#"{"name":"root","password":"top"}"#);
    post("/v3/auth/role/add", r#"{"name":"root"}"#);
    post("/v3/auth/user/grant", r#"{"user":"root","role":"root"}"#);
    post("/v3/auth/user/add", r#"{"name":"orrery","password":"secret"}"#);
    post("/v3/auth/user/grant", r#"{"user":"orrery","role":"root"}"#);
    post("/v3/auth/enable", "{}");
}

/// Asks for something of users and roles, as root may.
fn administer(cluster: &Cluster, path: &str, body: &str) {
    let said = cluster.post(0, "/v3/auth/authenticate", r#"{"name":"root","password":"top"}"#);
    let token = said.split("\"token\":\"").nth(1).and_then(|rest| rest.split('"').next());
    cluster.post_as(0, token.expect("a token"), path, body);
}

fn change_password(cluster: &Cluster, password: &str) {
    let body = format!(r#"{{"name":"orrery","password":"{password}"}}"#);
    administer(cluster, "/v3/auth/user/changepw", &body);
}

/// Signed tokens are not taken any more when users or roles have changed since they were given.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_user_locks_nobody_out() {
    let cluster = Cluster::start_signing();
    guard(&cluster);
    let user = Credentials { name: "orrery".to_owned(), password: "secret".to_owned() };
    let options = EtcdOptions { user: Some(user), ..cluster.options("r/") };
    let store = store(options, "").await;
    store.commit(vec![Op::create("before", "v")]).await.expect("it is allowed");
    administer(&cluster, "/v3/auth/user/add", r#"{"name":"another","password":"x"}"#);
    store.commit(vec![Op::create("after", "v")]).await.expect("it is allowed still");
    store.get("after").await.expect("it is read").expect("the cache goes on");
}

/// Until this one is let in with whatever it knows.
async fn until_let_in(store: &Store, key: &str) {
    let in_time = tokio::time::timeout(Duration::from_secs(60), async {
        while store.commit(vec![Op::create(key, "v")]).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
    in_time.await.expect("it is let in again");
    store.get(key).await.expect("it is read").expect("the cache goes on");
}

/// A wrong password is mended at etcd or here; either way nobody restarts a server for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_password_that_is_changed_meanwhile_locks_nobody_out_for_good() {
    let mut cluster = Cluster::start(1);
    guard(&cluster);
    let known = Arc::new(parking_lot::Mutex::new("secret".to_owned()));
    let user = |password: &str| {
        Some(Credentials { name: "orrery".to_owned(), password: password.to_owned() })
    };
    let file = Arc::clone(&known);
    let reread = Reread::new(move || {
        let password = file.lock().clone();
        let user = Some(Credentials { name: "orrery".to_owned(), password });
        Ok(Proofs { user, tls: None })
    });
    let options = EtcdOptions { user: user("secret"), ..cluster.options("r/") };
    let fixed = store(options.clone(), "").await;
    let reading = store(EtcdOptions { reread: Some(reread), ..options }, "").await;

    change_password(&cluster, "other");
    // Tokens end with the member that gave them.
    cluster.kill(0);
    cluster.restart(0);
    for store in [&fixed, &reading] {
        let refused = tokio::time::timeout(Duration::from_secs(60), async {
            loop {
                match store.commit(vec![Op::check("x", Expect::Absent)]).await {
                    Err(error) if error.to_string().contains("authentication failed") => break,
                    _ => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
        });
        refused.await.expect("it is refused, and says why");
        assert_eq!(store.health(), Ok(()), "a restart would not help");
    }
    *known.lock() = "other".to_owned();
    until_let_in(&reading, "a").await;
    change_password(&cluster, "secret");
    until_let_in(&fixed, "b").await;
}

/// An authority, and certificates that it signed.
struct Pki {
    authority: rcgen::Certificate,
    issuer: rcgen::Issuer<'static, rcgen::KeyPair>,
}

impl Pki {
    fn new() -> Self {
        let mut params = rcgen::CertificateParams::new([]).expect("no names are no wrong names");
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let key = rcgen::KeyPair::generate().expect("a key can be made");
        let authority = params.self_signed(&key).expect("an authority can be made");
        Self { authority, issuer: rcgen::Issuer::new(params, key) }
    }

    fn issue(&self, name: &str) -> (String, String) {
        let mut params = rcgen::CertificateParams::new([name.to_owned()]).expect("a good name");
        params.extended_key_usages = vec![
            rcgen::ExtendedKeyUsagePurpose::ServerAuth,
            rcgen::ExtendedKeyUsagePurpose::ClientAuth,
        ];
        let key = rcgen::KeyPair::generate().expect("a key can be made");
        let certificate = params.signed_by(&key, &self.issuer).expect("it can be signed");
        (certificate.pem(), key.serialize_pem())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tls_in_both_directions() {
    let files = tempfile::tempdir().expect("a temporary directory");
    let pki = Pki::new();
    let write = |name: &str, text: &str| {
        let path = files.path().join(name);
        std::fs::write(&path, text).expect("a file can be written");
        path
    };
    let (certificate, key) = pki.issue("etcd.test");
    let server = ServerTls {
        certificate: write("server.crt", &certificate),
        key: write("server.key", &key),
        authority: write("ca.crt", &pki.authority.pem()),
    };
    let cluster = Cluster::start_with(1, Some(server));
    let (certificate, key) = pki.issue("client.test");
    let tls = EtcdTls {
        authority: pki.authority.pem().into_bytes(),
        identity: Some((certificate.into_bytes(), key.into_bytes())),
        domain: Some("etcd.test".to_owned()),
    };
    let store = store(cluster.options_tls("r/", tls.clone()), "").await;
    let revision = store.commit(vec![Op::create("a", "v")]).await.expect("it is let in");
    let check = vec![Op::check("a", Expect::At(revision))];
    store.commit(check).await.expect("what was written is there");

    let nameless = EtcdTls { identity: None, ..tls.clone() };
    let misled = EtcdTls { domain: Some("other.test".to_owned()), ..tls.clone() };
    let distrusting = EtcdTls { authority: Pki::new().authority.pem().into_bytes(), ..tls };
    let unwelcome = "etcd does not take the certificate that we show";
    for (wrong, why) in [(nameless, unwelcome), (misled, ""), (distrusting, "")] {
        let request_timeout = Duration::from_secs(1);
        let options = EtcdOptions { request_timeout, ..cluster.options_tls("r/", wrong) };
        let error = open_etcd(options).await.expect_err("not let in");
        assert!(error.to_string().contains("cannot be reached"), "{error}");
        assert!(error.to_string().contains(why), "{error}");
    }
}

/// Certificates end, and authorities are replaced, while servers run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn certificates_that_are_replaced_meanwhile_are_used() {
    let files = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| files.path().join(name);
    let server = ServerTls {
        certificate: path("server.crt"),
        key: path("server.key"),
        authority: path("ca.crt"),
    };
    let replace = |pki: &Pki| {
        let (certificate, key) = pki.issue("etcd.test");
        let texts =
            [("server.crt", certificate), ("server.key", key), ("ca.crt", pki.authority.pem())];
        for (name, text) in texts {
            std::fs::write(path(name), text).expect("a file can be written");
        }
        let (certificate, key) = pki.issue("client.test");
        EtcdTls {
            authority: pki.authority.pem().into_bytes(),
            identity: Some((certificate.into_bytes(), key.into_bytes())),
            domain: Some("etcd.test".to_owned()),
        }
    };
    let tls = replace(&Pki::new());
    let known = Arc::new(parking_lot::Mutex::new(tls.clone()));
    let mut cluster = Cluster::start_with(1, Some(server));
    let file = Arc::clone(&known);
    let reread = Reread::new(move || Ok(Proofs { user: None, tls: Some(file.lock().clone()) }));
    let options = cluster.options_tls("r/", tls);
    let store = store(EtcdOptions { reread: Some(reread), ..options }, "").await;
    until_let_in(&store, "a").await;

    cluster.kill(0);
    let tls = replace(&Pki::new());
    cluster.restart(0);
    store.commit(vec![Op::create("b", "v")]).await.expect_err("they do not know each other");
    *known.lock() = tls;
    until_let_in(&store, "c").await;
}

#[allow(
    clippy::disallowed_methods,
    reason = "members die at any moment: waiting is the fault itself"
)]
fn strike_later(milliseconds: u64) {
    std::thread::sleep(Duration::from_millis(milliseconds));
}
