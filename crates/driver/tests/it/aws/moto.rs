//! moto's EC2 endpoint on loopback, with signature checking on.
//!
//! Needs `python3` with `venv`. The first test that runs installs the PyPI package `moto[server]`
//! into `target/tools/moto`; `ORRERY_MOTO_SERVER` names one that is there already.
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

/// The calls that moto does not check: those that make the user whose calls it checks from then on.
const FREE_CALLS: usize = 3;
const START_TIMEOUT: Duration = Duration::from_secs(120);
const POLICY: &str = "%7B%22Version%22%3A%222012-10-17%22%2C%22Statement%22%3A%5B%7B%22Effect%22%3A%22Allow%22%2C%22Action%22%3A%22ec2%3A%2A%22%2C%22Resource%22%3A%22%2A%22%7D%5D%7D";

pub struct Moto {
    pub address: String,
    pub key_id: String,
    pub key: String,
    _server: Child,
}

impl Moto {
    pub async fn start() -> Self {
        let mut server = Command::new(program().await)
            .args(["-H", "127.0.0.1", "-p", "0"])
            .env("INITIAL_NO_AUTH_ACTION_COUNT", FREE_CALLS.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("moto starts");
        let stderr = server.stderr.take().expect("piped");
        let address = tokio::time::timeout(START_TIMEOUT, announced(stderr)).await;
        let address = address.expect("moto listens in time");
        let (key_id, key) = make_user(&address).await;
        Self { address, key_id, key, _server: server }
    }
}

/// The address in "Running on http://127.0.0.1:PORT"; the rest is read so that moto never waits.
async fn announced(stderr: tokio::process::ChildStderr) -> String {
    let mut lines = BufReader::new(stderr).lines();
    let mut seen = Vec::new();
    while let Some(line) = lines.next_line().await.expect("moto speaks") {
        if let Some((_, address)) = line.split_once("http://") {
            let address = address.trim().to_owned();
            tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
            return address;
        }
        seen.push(line);
    }
    panic!("moto ended before it listened: {seen:?}")
}

async fn make_user(address: &str) -> (String, String) {
    let call = |form: &'static str| iam(address, form);
    call("Action=CreateUser&UserName=orrery&Version=2010-05-08").await;
    let made = call("Action=CreateAccessKey&UserName=orrery&Version=2010-05-08").await;
    let form = format!(
        "Action=PutUserPolicy&UserName=orrery&PolicyName=ec2&PolicyDocument={POLICY}&Version=2010-05-08"
    );
    iam(address, &form).await;
    let of = |tag: &str| {
        let (_, rest) = made.split_once(&format!("<{tag}>")).expect("in the answer");
        rest.split_once('<').expect("closed").0.to_owned()
    };
    (of("AccessKeyId"), of("SecretAccessKey"))
}

/// A call that moto does not check; the header only says which service is meant.
async fn iam(address: &str, form: &str) -> String {
    let scope = "Credential=free/20260101/us-east-1/iam/aws4_request";
    let request = format!(
        "POST / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\
         Authorization: AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=none\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
        form.len()
    );
    let mut stream = TcpStream::connect(address).await.expect("connects");
    stream.write_all(request.as_bytes()).await.expect("sends");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("answers");
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    answer
}

async fn program() -> PathBuf {
    if let Some(named) = std::env::var_os("ORRERY_MOTO_SERVER") {
        return named.into();
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("within target");
    let tools = target.join("tools");
    tokio::task::spawn_blocking(move || installed(&tools)).await.expect("installs")
}

/// One test installs, the others wait at the lock.
fn installed(tools: &Path) -> PathBuf {
    let (folder, program) = (tools.join("moto"), tools.join("moto/bin/moto_server"));
    std::fs::create_dir_all(tools).expect("a folder for tools");
    let lock = File::create(tools.join("moto.lock")).expect("a lock");
    lock.lock().expect("locks");
    if !program.exists() {
        run(std::process::Command::new("python3").arg("-m").arg("venv").arg(&folder));
        let pip = folder.join("bin/pip");
        run(std::process::Command::new(pip).args(["install", "--quiet", "moto[server]"]));
    }
    program
}

fn run(command: &mut std::process::Command) {
    let output = command.output().expect("python3 is installed");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {said}");
}
