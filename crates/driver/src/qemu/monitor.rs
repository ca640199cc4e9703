//! The monitor of a virtual machine: JSON, one line each way.
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::time::timeout;

/// A monitor that takes longer hangs.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);
/// Far above any answer to what is asked here.
const LINE_BYTES_MAX: u64 = 1 << 20;

/// Whether a virtual machine is there.
pub async fn answers(socket: &Path) -> bool {
    command(socket, "query-status").await.is_ok()
}

/// Does one command and returns what it answers.
pub async fn command(socket: &Path, name: &str) -> std::io::Result<Value> {
    let asked = timeout(ANSWER_TIMEOUT, ask(socket, name)).await;
    asked.map_err(|_| std::io::Error::from(std::io::ErrorKind::TimedOut))?
}

async fn ask(socket: &Path, name: &str) -> std::io::Result<Value> {
    let (reader, mut writer) = UnixStream::connect(socket).await?.into_split();
    let mut reader = BufReader::new(reader);
    let mut answer = Value::Null;
    // The greeting comes by itself; then the monitor is told that it may take commands.
    line(&mut reader).await?;
    for command in ["qmp_capabilities", name] {
        let request = format!("{}\n", json!({"execute": command}));
        writer.write_all(request.as_bytes()).await?;
        answer = returned(&mut reader).await?;
    }
    Ok(answer)
}

/// The next answer; what happens meanwhile is told in between.
async fn returned(reader: &mut (impl tokio::io::AsyncBufRead + Unpin)) -> std::io::Result<Value> {
    loop {
        let mut said = line(reader).await?;
        if let Some(error) = said.get("error") {
            return Err(std::io::Error::other(error.to_string()));
        }
        if let Some(value) = said.get_mut("return") {
            return Ok(value.take());
        }
    }
}

async fn line(reader: &mut (impl tokio::io::AsyncBufRead + Unpin)) -> std::io::Result<Value> {
    let mut text = String::new();
    let mut limited = reader.take(LINE_BYTES_MAX);
    if limited.read_line(&mut text).await? == 0 {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    serde_json::from_str(&text).map_err(std::io::Error::other)
}
