//! Asking a run how it is.
use crate::model::InstanceId;
use crate::plan::Rhythm;
use crate::runtime::Runtime;
use crate::runtime::exec::{ExecRequest, Executing, Written};
use futures::StreamExt;
use http_body_util::Empty;
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use orrery_proto::apps::v1::{ExecProbe, HttpProbe, Probe, probe::Action};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::net::TcpStream;

/// How much of what a command says is repeated when it fails.
const SAID_MAX_BYTES: usize = 200;

/// What a probe of the wire means, with what the contract says where nothing is written.
pub(crate) fn rhythm(probe: &Probe) -> Rhythm {
    let seconds = |value: Option<i32>, default: u64| {
        Duration::from_secs(value.and_then(|value| u64::try_from(value).ok()).unwrap_or(default))
    };
    let count = |value: Option<i32>, default: u32| {
        value.and_then(|value| u32::try_from(value).ok()).unwrap_or(default).max(1)
    };
    Rhythm {
        initial_delay: seconds(probe.initial_delay_seconds, 0),
        period: seconds(probe.period_seconds, 10).max(Duration::from_secs(1)),
        timeout: seconds(probe.timeout_seconds, 1).max(Duration::from_secs(1)),
        success_threshold: count(probe.success_threshold, 1),
        failure_threshold: count(probe.failure_threshold, 3),
    }
}

/// Asks once. Bad answers, no answers and late ones are errors that say why.
pub(crate) async fn ask(
    runtime: &dyn Runtime,
    id: &InstanceId,
    probe: &Probe,
) -> Result<(), String> {
    let patience = rhythm(probe).timeout;
    let asked = async {
        match &probe.action {
            Some(Action::Http(http)) => get(address(runtime, id, http.port()).await?, http).await,
            Some(Action::Tcp(tcp)) => {
                let address = address(runtime, id, tcp.port()).await?;
                connect(address).await.map(|_| ())
            }
            Some(Action::Exec(exec)) => command(runtime, id, exec).await,
            None => Err("this agent does not know such a probe; a newer one may".to_owned()),
        }
    };
    match tokio::time::timeout(patience, asked).await {
        Ok(outcome) => outcome,
        Err(_) => Err(format!("no answer within {} s", patience.as_secs())),
    }
}

async fn address(runtime: &dyn Runtime, id: &InstanceId, port: i32) -> Result<SocketAddr, String> {
    let host: IpAddr = runtime.address(id).await.map_err(|error| error.to_string())?;
    let port = u16::try_from(port).map_err(|_| format!("{port} is no port"))?;
    Ok(SocketAddr::new(host, port))
}

async fn connect(address: SocketAddr) -> Result<TcpStream, String> {
    TcpStream::connect(address)
        .await
        .map_err(|error| format!("cannot connect to {address}: {error}"))
}

async fn get(address: SocketAddr, probe: &HttpProbe) -> Result<(), String> {
    let stream = connect(address).await?;
    let said = |error: hyper::Error| format!("{address} does not speak HTTP: {error}");
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(said)?;
    let path = probe.path.as_deref().unwrap_or("/");
    let request = hyper::Request::get(path)
        .header("host", address.to_string())
        .header("user-agent", "orrery-probe")
        .header("connection", "close")
        .body(Empty::<Bytes>::new())
        .map_err(|error| format!("{path:?} cannot be asked for: {error}"))?;
    let asking = sender.send_request(request);
    tokio::pin!(asking, connection);
    let mut open = true;
    let answer = loop {
        tokio::select! {
            biased;
            answer = &mut asking => break answer.map_err(said)?,
            // The connection may end with the answer; then the answer is there.
            _ = &mut connection, if open => open = false,
        }
    };
    match answer.status().as_u16() {
        200..=399 => Ok(()),
        code => Err(format!("GET {path} answered {code}")),
    }
}

async fn command(runtime: &dyn Runtime, id: &InstanceId, probe: &ExecProbe) -> Result<(), String> {
    let request = ExecRequest { command: probe.command.clone(), stdin: false, tty: None };
    let begun = runtime.exec(id, request).await.map_err(|error| error.to_string())?;
    let Executing { mut output, mut control, .. } = begun;
    let mut said = Vec::new();
    while let Some(piece) = output.next().await {
        let (Ok(Written::Out(data)) | Ok(Written::Err(data))) = piece else { break };
        let room = SAID_MAX_BYTES.saturating_sub(said.len());
        said.extend(data.into_iter().take(room));
    }
    let code = control.ended().await.map_err(|error| error.to_string())?;
    if code == 0 {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&said);
    let said = said.trim();
    Err(match said.is_empty() {
        true => format!("its command ended with code {code}"),
        false => format!("its command ended with code {code}: {said}"),
    })
}
