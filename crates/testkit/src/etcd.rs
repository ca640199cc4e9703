//! Debian's etcd-server, started by the tests on loopback and killed by its process id.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use orrery_store::EtcdOptions;
use orrery_store::etcd::EtcdTls;
use rustix::process::{Pid, Signal, kill_process};

/// How long clients wait for an answer: longer than an election takes here.
const PATIENCE: Duration = Duration::from_secs(10);

/// Far longer than a start takes.
const START: Duration = Duration::from_secs(30);
const LOOK_AGAIN: Duration = Duration::from_millis(20);

#[allow(
    clippy::disallowed_methods,
    reason = "another process tells nobody: all there is is to look"
)]
fn pause() {
    std::thread::sleep(LOOK_AGAIN);
}

pub struct Cluster {
    directory: tempfile::TempDir,
    members: Vec<Member>,
    tls: Option<ServerTls>,
    /// What else the members are told when they start.
    more: Vec<String>,
}

struct Member {
    client_port: u16,
    peer_port: u16,
    process: Option<Child>,
}

/// Files that make etcd speak TLS and demand certificates.
pub struct ServerTls {
    pub certificate: PathBuf,
    pub key: PathBuf,
    pub authority: PathBuf,
}

impl Cluster {
    pub fn start(size: usize) -> Self {
        Self::start_with(size, None)
    }

    pub fn start_with(size: usize, tls: Option<ServerTls>) -> Self {
        Self::started(size, tls, |_| Vec::new())
    }

    /// One member whose database may grow to so many bytes.
    pub fn start_small(quota_bytes: u64) -> Self {
        let quota = ["--quota-backend-bytes".to_owned(), quota_bytes.to_string()];
        Self::started(1, None, |_| quota.into())
    }

    /// One member whose tokens are signed, and say by which state of users and roles they were given.
    pub fn start_signing() -> Self {
        Self::started(1, None, |folder| {
            let secret = folder.join("secret");
            std::fs::write(&secret, rand::random::<[u8; 32]>()).expect("a secret can be written");
            let how = format!("jwt,sign-method=HS256,ttl=10m,priv-key={}", secret.display());
            vec!["--auth-token".to_owned(), how]
        })
    }

    fn started(
        size: usize,
        tls: Option<ServerTls>,
        more: impl FnOnce(&Path) -> Vec<String>,
    ) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let more = more(directory.path());
        let mut ports = free_ports(size * 2).into_iter();
        let mut port = || ports.next().expect("as many as were asked for");
        let members = (0..size)
            .map(|_| Member { client_port: port(), peer_port: port(), process: None })
            .collect();
        let mut cluster = Self { directory, members, tls, more };
        for member in 0..size {
            cluster.spawn(member);
        }
        for member in 0..size {
            cluster.wait(member);
        }
        cluster
    }

    /// Options for a client that knows all members.
    pub fn options(&self, root: &str) -> EtcdOptions {
        let endpoints = (0..self.members.len()).map(|member| self.endpoint(member)).collect();
        let root = root.to_owned();
        EtcdOptions {
            endpoints,
            root,
            user: None,
            tls: None,
            reread: None,
            request_timeout: PATIENCE,
        }
    }

    pub fn options_tls(&self, root: &str, tls: EtcdTls) -> EtcdOptions {
        EtcdOptions { tls: Some(tls), ..self.options(root) }
    }

    /// Where its members keep their data.
    pub fn folder(&self) -> &Path {
        self.directory.path()
    }

    pub fn size(&self) -> usize {
        self.members.len()
    }

    fn endpoint(&self, member: usize) -> String {
        format!("127.0.0.1:{}", self.members[member].client_port)
    }

    /// Ends a member as a crash would.
    pub fn kill(&mut self, member: usize) {
        if let Some(mut process) = self.members[member].process.take() {
            process.kill().expect("a child can be killed");
            process.wait().expect("a child can be waited for");
        }
    }

    /// Stops a member: it hears what is sent to it when it goes on, or never where it is ended before.
    pub fn freeze(&self, member: usize) {
        self.signal(member, Signal::STOP);
    }

    /// Lets a stopped member go on.
    pub fn thaw(&self, member: usize) {
        self.signal(member, Signal::CONT);
    }

    fn signal(&self, member: usize, signal: Signal) {
        let process = self.members[member].process.as_ref().expect("it runs");
        kill_process(Pid::from_child(process), signal).expect("a child can be told");
    }

    /// Starts a member again with the data it had.
    pub fn restart(&mut self, member: usize) {
        self.spawn(member);
        self.wait(member);
    }

    /// Starts a member again without waiting for it, as is needed while it has no quorum.
    pub fn spawn(&mut self, member: usize) {
        let name = |member: usize| format!("m{member}");
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let peer = |member: &Member| format!("http://127.0.0.1:{}", member.peer_port);
        let client = format!("{scheme}://{}", self.endpoint(member));
        let all = self.members.iter().enumerate();
        let all: Vec<_> = all.map(|(i, m)| format!("{}={}", name(i), peer(m))).collect();
        let log = std::fs::File::create(self.directory.path().join(name(member) + ".log"))
            .expect("a log file can be made");
        // setpriv, of util-linux, makes the kernel end etcd should this process be killed.
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL", "--", "etcd"])
            .arg("--data-dir")
            .arg(self.directory.path().join(name(member)))
            .args(["--name", &name(member), "--initial-cluster", &all.join(",")])
            .args(["--listen-peer-urls", &peer(&self.members[member])])
            .args(["--initial-advertise-peer-urls", &peer(&self.members[member])])
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--heartbeat-interval", "50", "--election-timeout", "500"])
            .args(["--initial-cluster-state", "new", "--logger", "zap"])
            .stdout(Stdio::null())
            .stderr(log);
        if let Some(tls) = &self.tls {
            command.arg("--client-cert-auth");
            command.arg("--cert-file").arg(&tls.certificate).arg("--key-file").arg(&tls.key);
            command.arg("--trusted-ca-file").arg(&tls.authority);
        }
        command.args(&self.more);
        let process = command.spawn().expect("setpriv is there; it is part of util-linux");
        self.members[member].process = Some(process);
    }

    fn wait(&mut self, member: usize) {
        let endpoint = self.endpoint(member);
        let mut looks = START.as_millis() / LOOK_AGAIN.as_millis();
        while TcpStream::connect(&endpoint).is_err() {
            looks -= 1;
            let process = self.members[member].process.as_mut().expect("it was started");
            let ended = process.try_wait().expect("a child can be asked");
            assert!(
                ended.is_none() && 0 < looks,
                "etcd does not start (is Debian's etcd-server installed?): {}",
                tail(&self.directory.path().join(format!("m{member}.log"))),
            );
            pause();
        }
    }

    /// Sends a request to the JSON gateway of a member and answers the body.
    pub fn post(&self, member: usize, path: &str, body: &str) -> String {
        self.post_as(member, "", path, body)
    }

    /// The same for whoever has this token.
    pub fn post_as(&self, member: usize, token: &str, path: &str, body: &str) -> String {
        let endpoint = self.endpoint(member);
        let mut stream = TcpStream::connect(&endpoint).expect("the member runs");
        let proof = match token {
            "" => String::new(),
            token => format!("Authorization: {token}\r\n"),
        };
        let length = body.len();
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nHost: {endpoint}\r\nConnection: close\r\n\
             {proof}Content-Length: {length}\r\n\r\n{body}"
        )
        .expect("a request can be sent");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer can be read");
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
        answer
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for member in 0..self.members.len() {
            self.kill(member);
        }
    }
}

/// Ports that were free a moment ago; all held at once, so that they differ.
fn free_ports(count: usize) -> Vec<u16> {
    let listeners: Vec<_> =
        (0..count).map(|_| TcpListener::bind("127.0.0.1:0").expect("a port is free")).collect();
    let port = |listener: &TcpListener| listener.local_addr().expect("it is bound").port();
    listeners.iter().map(port).collect()
}

fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.lines().rev().take(5).collect();
    lines.into_iter().rev().collect::<Vec<_>>().join("\n")
}
