//! Connections between proxies whose certificates come from the authority that the servers keep: guarded
//! by targets, and never cut by its rotation. Every connection is a handshake of its own.
use super::{Envoy, PROJECT, apply, free_port, get, service};
use crate::harness::{Home, until};
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

/// A connection that takes longer has failed.
const PATIENCE: Duration = Duration::from_secs(20);
/// Connections that must go well between two steps.
const ENOUGH: usize = 50;

/// An instance that repeats what it is told.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bind to a free port");
    let address = listener.local_addr().expect("it is bound");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                let mut buffer = [0_u8; 64];
                while let Ok(count @ 1..) = stream.read(&mut buffer) {
                    if stream.write_all(&buffer[..count]).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// Whether a word comes back through a connection of its own.
fn talk(at: SocketAddr) -> bool {
    let talking = || {
        let mut stream = TcpStream::connect_timeout(&at, PATIENCE).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        stream.write_all(b"hello").ok()?;
        let mut heard = [0_u8; 5];
        stream.read_exact(&mut heard).ok()?;
        (heard == *b"hello").then_some(())
    };
    talking().is_some()
}

/// For each use of certificates in a proxy: the serial numbers of what it shows, and of what it trusts.
/// Towards the server it has one that nothing here touches.
fn certificates(envoy: &Envoy) -> Option<BTreeSet<(Vec<String>, Vec<String>)>> {
    let (_, text) = get(envoy.admin, "admin", "/certs")?;
    let read: Value = serde_json::from_str(&text).ok()?;
    let serials = |one: &Value, part: &str| -> Vec<String> {
        let parts = one[part].as_array().into_iter().flatten();
        parts.filter_map(|one| one["serial_number"].as_str().map(str::to_owned)).collect()
    };
    let all = read["certificates"].as_array()?.iter();
    Some(all.map(|one| (serials(one, "cert_chain"), serials(one, "ca_cert"))).collect())
}

/// Ends what goes on in another thread, however this one ends.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

struct Mesh {
    home: Home,
    db: Envoy,
    web: Envoy,
    /// Where connections of `web` to `db` are taken.
    at: SocketAddr,
}

/// A folder with the certificate that a proxy is given for a token.
fn join(home: &Home, url: &str, token: &str, name: &str, folder: &str) -> PathBuf {
    let folder = home.path(folder);
    let path = folder.display().to_string();
    let join = ["join", "--role", "proxy", "--name", &format!("{name}.shop"), "--server", url];
    home.orrery(&[&join[..], &["--token", token, "--dir", &path]].concat()).good();
    folder
}

/// A proxy with such a certificate.
fn joined(home: &Home, url: &str, token: &str, name: &str, more: &[&str]) -> Envoy {
    let folder = join(home, url, token, name, &format!("proxy-{name}")).display().to_string();
    Envoy::start(home, name, &[&["--server", url, "--tls-dir", &folder], more].concat())
}

impl Mesh {
    fn start(home: Home) -> Self {
        let shown = home.orrery(&["context", "show", "local"]).good();
        let url = shown.lines().find_map(|line| line.strip_prefix("server: "));
        let url = url.expect("the context names it").trim_matches('"').to_owned();
        let declared = [
            PROJECT.to_owned(),
            service("web", "{ports: [{name: http, port: 80}]}"),
            service("db", "{encrypted: true, ports: [{name: echo, port: 7, protocol: tcp}]}"),
        ];
        apply(&home, "all.yaml", &[], &declared.concat());
        let made = ["token", "create", "--role", "proxy", "--name", "*.shop", "--uses", "3"];
        let token = home.orrery(&made).good().trim().to_owned();
        let (echo, port) = (echo().to_string(), free_port("127.0.0.1"));
        let (inbound, port) = (format!("127.0.0.1:{port}"), port.to_string());
        let front = ["--inbound", &inbound, "--instance", &echo, "--announce", &port];
        let db = joined(&home, &url, &token, "db", &front);
        let at = SocketAddr::from(([127, 0, 0, 1], free_port("127.0.0.1")));
        let connect = format!("{at}=db:7");
        let web = joined(&home, &url, &token, "web", &["--connect", &connect]);
        let mesh = Self { home, db, web, at };
        until("web reaches db", || talk(mesh.at).then_some(()));
        let inbound: SocketAddr = inbound.parse().expect("an address");
        assert!(!talk(inbound), "plain text is not heard");
        mesh.renew(&url, &token);
        mesh
    }

    /// The files with which a proxy connects are replaced, as `orrery join --renew` does, and it notices.
    fn renew(&self, url: &str, token: &str) {
        let (old, new) =
            (self.home.path("proxy-web"), join(&self.home, url, token, "web", "again"));
        let certificate = std::fs::read(new.join("certificate.pem")).expect("it is there");
        let identity = orrery_pki::Identity::of_pem(&certificate).expect("a certificate");
        for file in ["key.pem", "certificate.pem"] {
            std::fs::rename(new.join(file), old.join(file)).expect("replaced");
        }
        until("the proxy notices", || {
            let (_, text) = get(self.web.admin, "admin", "/certs")?;
            text.contains(&identity.serial).then_some(())
        });
    }

    fn allow(&self, source: &str) {
        let target = format!(
            "{{apiVersion: specs.smi-spec.io/v1alpha4, kind: TCPRoute, metadata: {{name: echo, project: shop}},
                spec: {{matches: {{ports: [7]}}}}}}\n---
{{apiVersion: access.smi-spec.io/v1alpha4, kind: TrafficTarget, metadata: {{name: db, project: shop}},
                spec: {{destination: {{kind: ServiceAccount, name: db}},
                    sources: [{{kind: ServiceAccount, name: {source}}}],
                    rules: [{{kind: TCPRoute, name: echo}}]}}}}\n"
        );
        apply(&self.home, "target.yaml", &[], &target);
    }
}

/// proves: MSH-03, MSH-07
#[test]
fn the_stored_authority_is_rotated_without_a_failed_connection() {
    let home = Home::new();
    let _up = home.start(&["up", "--tls", "--listen", "127.0.0.1:0"]);
    let mesh = Mesh::start(home);
    mesh.allow("bank");
    until("web is kept out", || (!talk(mesh.at)).then_some(()));
    until("its proxy says why", || {
        let proxies = mesh.home.orrery(&["mesh", "proxies", "-p", "shop"]).good();
        proxies.contains("shop/db:7 is closed by policy").then_some(())
    });
    mesh.allow("web");
    until("web is let in", || talk(mesh.at).then_some(()));

    let (stop, good, bad) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let count = if talk(mesh.at) { &good } else { &bad };
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        let going_on = || {
            let before = good.load(Ordering::Relaxed);
            until("connections go on", || {
                let now = good.load(Ordering::Relaxed);
                (before + ENOUGH <= now || 0 < bad.load(Ordering::Relaxed)).then_some(())
            });
        };
        let _stop = Stop(&stop);
        going_on();
        let before = [&mesh.db, &mesh.web].map(|envoy| certificates(envoy).expect("it tells"));
        mesh.home.orrery(&["pki", "rotate"]).good();
        until("both proxies show other certificates and trust both roots", || {
            let now = [certificates(&mesh.db)?, certificates(&mesh.web)?];
            let is_new = |(now, old): (&BTreeSet<_>, &BTreeSet<_>)| {
                now.difference(old)
                    .any(|(_, trusted): &(Vec<String>, Vec<String>)| trusted.len() == 2)
            };
            now.iter().zip(&before).all(is_new).then_some(())
        });
        going_on();
        // Nobody renews what these proxies show to the server itself, so they would not come back.
        let refused = mesh.home.orrery(&["pki", "rotate", "--finish"]);
        assert_eq!(refused.code, Some(1), "{refused:?}");
        assert!(refused.err.contains("proxy/db.shop, proxy/web.shop"), "{refused:?}");
        mesh.home.orrery(&["pki", "rotate", "--finish", "--force"]).good();
        until("both have forgotten the old root", || {
            let now = [certificates(&mesh.db)?, certificates(&mesh.web)?];
            now.iter().flatten().all(|(_, trusted)| trusted.len() == 1).then_some(())
        });
        going_on();
    });
    assert_eq!(bad.into_inner(), 0, "of {} connections", good.into_inner());
}
