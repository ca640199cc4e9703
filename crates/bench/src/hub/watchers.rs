//! One change to many watchers.
use orrery_bench::resources::resource;
use orrery_bench::server::Server;
use orrery_bench::table::Table;
use orrery_proto::hub::v1::watch_response::Type;
use orrery_proto::hub::v1::{WatchRequest, WatchResponse};
use std::path::Path;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

const CHANGES: usize = 50;
/// Streams on one connection; more would wait for each other there.
const STREAMS_PER_CONNECTION: usize = 100;

pub async fn measure(folder: &Path) -> anyhow::Result<()> {
    println!("## One change to many watchers, {CHANGES} changes\n");
    let mut table = Table::new(&[
        "watchers",
        "all have it, p50 ms",
        "p99 ms",
        "server CPU per change ms",
        "server CPU per watcher us",
        "server memory MiB",
    ]);
    for watchers in [1, 100, 1000] {
        let server = Server::start(&folder.join(format!("watch-{watchers}"))).await?;
        table.row(&with(&server, watchers).await?);
    }
    table.print();
    Ok(())
}

async fn with(server: &Server, watchers: usize) -> anyhow::Result<Vec<String>> {
    let mut running = JoinSet::new();
    let (heard, mut hearing) = mpsc::channel::<Instant>(watchers);
    let connections = server.clients(watchers.div_ceil(STREAMS_PER_CONNECTION)).await?;
    for number in 0..watchers {
        let mut client = connections[number / STREAMS_PER_CONNECTION].clone();
        let request = WatchRequest { kind: "Project".into(), ..WatchRequest::default() };
        let mut events = client.watch(request).await?.into_inner();
        while events.message().await?.is_some_and(|event| event.r#type() != Type::Bookmark) {}
        let heard = heard.clone();
        running.spawn(async move {
            while let Ok(Some(event)) = events.message().await {
                if is_change(&event) && heard.send(Instant::now()).await.is_err() {
                    return;
                }
            }
        });
    }
    let mut client = server.clients(1).await?.remove(0);
    let before = server.process.cpu()?;
    let mut times = Vec::new();
    for change in 0..CHANGES {
        let sent = Instant::now();
        client.apply(resource("watched", 400, change)).await?;
        let mut last = sent;
        for _ in 0..watchers {
            last = hearing.recv().await.unwrap_or(last).max(last);
        }
        times.push(last - sent);
    }
    let cpu = (server.process.cpu()? - before).div_f64(CHANGES as f64);
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share).round() as usize];
    let ms = |time: Duration| format!("{:.1}", time.as_secs_f64() * 1000.0);
    Ok(vec![
        watchers.to_string(),
        ms(at(0.5)),
        ms(at(0.99)),
        ms(cpu),
        format!("{:.1}", cpu.as_secs_f64() * 1e6 / watchers as f64),
        format!("{:.0}", server.process.memory_mib()?),
    ])
}

/// The project controller's own status writes come as changes too; only ours count.
fn is_change(event: &WatchResponse) -> bool {
    use orrery_proto::core::v1::Project;
    use orrery_proto::hub::v1::resource::Body;
    let Some(Body::Protobuf(bytes)) = event.resource.as_ref().and_then(|r| r.body.as_ref()) else {
        return false;
    };
    let project: Project = prost::Message::decode(bytes.clone()).unwrap_or_default();
    let named = project.metadata.is_some_and(|meta| meta.name == "watched");
    named && (event.r#type() == Type::Added || project.status.is_some())
}
