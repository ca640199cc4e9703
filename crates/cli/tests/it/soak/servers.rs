//! The processes that are killed.
use crate::harness::{Home, Process};
use orrery_testkit::etcd::Cluster;
use parking_lot::Mutex;
use std::sync::Arc;

const SERVERS: usize = 2;

pub struct Servers {
    inner: Arc<Inner>,
}

struct Inner {
    home: Home,
    etcd: Mutex<Cluster>,
    store: Vec<String>,
    running: Mutex<Vec<Option<Process>>>,
    urls: Mutex<Vec<String>>,
}

impl Servers {
    pub fn start() -> Self {
        let etcd = Cluster::start(3);
        let endpoints = etcd.options("orrery/").endpoints.join(",");
        let store = vec!["--store".to_owned(), format!("etcd://{endpoints}")];
        let inner = Inner {
            home: Home::new(),
            etcd: Mutex::new(etcd),
            store,
            running: Mutex::new((0..SERVERS).map(|_| None).collect()),
            urls: Mutex::new(vec![String::new(); SERVERS]),
        };
        (0..SERVERS).for_each(|server| inner.start(server));
        Self { inner: Arc::new(inner) }
    }

    /// Where a server is, or was last.
    pub fn url(&self, number: usize) -> String {
        self.inner.urls.lock()[number % SERVERS].clone()
    }

    pub async fn kill(&self, server: usize) {
        self.blocking(move |inner| {
            if let Some(mut process) = inner.running.lock()[server].take() {
                process.kill();
            }
        })
        .await;
    }

    pub async fn restart(&self, server: usize) {
        self.blocking(move |inner| inner.start(server)).await;
    }

    pub async fn kill_member(&self, member: usize) {
        self.blocking(move |inner| inner.etcd.lock().kill(member)).await;
    }

    pub async fn restart_member(&self, member: usize) {
        self.blocking(move |inner| inner.etcd.lock().restart(member)).await;
    }

    async fn blocking(&self, work: impl FnOnce(&Inner) + Send + 'static) {
        let inner = self.inner.clone();
        let done = tokio::task::spawn_blocking(move || work(&inner)).await;
        done.expect("a process can be killed and started");
    }
}

impl Inner {
    fn start(&self, server: usize) {
        let (process, url) = self.home.server(&format!("server-{server}"), &self.store);
        self.urls.lock()[server] = url;
        self.running.lock()[server] = Some(process);
    }
}
