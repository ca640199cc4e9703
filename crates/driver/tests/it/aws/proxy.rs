//! Stands before the provider and makes the faults that it does not make itself.
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::Notify;

#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// None, this time.
    Pass,
    /// EC2's own answer with this status and code; the provider hears nothing.
    Answer(u16, &'static str),
    /// An answer that is none of EC2's.
    Nonsense(u16),
    /// The provider does it, and the connection breaks before its answer.
    LoseReply,
    /// The provider does it, and its answer never comes.
    HoldReply,
    /// The connection breaks before the provider hears anything.
    LoseRequest,
}

#[derive(Default)]
struct Plan {
    /// By action, for the next requests.
    faults: Mutex<HashMap<&'static str, VecDeque<Fault>>>,
    /// How often each action reached the provider.
    passed: Mutex<HashMap<String, usize>>,
    /// Told when an answer is held back.
    holding: Notify,
}

pub struct Proxy {
    pub endpoint: String,
    plan: Arc<Plan>,
}

impl Proxy {
    pub async fn before(provider: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("binds");
        let endpoint = format!("http://{}/", listener.local_addr().expect("bound"));
        let plan = Arc::new(Plan::default());
        let client = Client::builder(TokioExecutor::new()).build_http();
        let (provider, shared) = (provider.to_owned(), plan.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (client, provider, plan) = (client.clone(), provider.clone(), shared.clone());
                let serve = service_fn(move |request| {
                    handle(plan.clone(), client.clone(), provider.clone(), request)
                });
                let http = hyper::server::conn::http1::Builder::new();
                // A connection that breaks is what this is for.
                tokio::spawn(async move {
                    http.serve_connection(TokioIo::new(stream), serve).await.ok()
                });
            }
        });
        Self { endpoint, plan }
    }

    pub fn fault(&self, action: &'static str, fault: Fault) {
        self.plan.faults.lock().entry(action).or_default().push_back(fault);
    }

    pub fn passed(&self, action: &str) -> usize {
        self.plan.passed.lock().get(action).copied().unwrap_or_default()
    }

    pub async fn held(&self) {
        self.plan.holding.notified().await;
    }
}

async fn handle(
    plan: Arc<Plan>,
    client: Client<HttpConnector, Full<Bytes>>,
    provider: String,
    request: Request<Incoming>,
) -> anyhow::Result<Response<Full<Bytes>>> {
    let (mut head, body) = request.into_parts();
    let body = body.collect().await?.to_bytes();
    let action = action_of(&body);
    let fault = plan.faults.lock().get_mut(action.as_str()).and_then(VecDeque::pop_front);
    match fault {
        Some(Fault::Answer(status, code)) => return answer(status, &ec2_error(code)),
        Some(Fault::Nonsense(status)) => return answer(status, "<html>bad gateway</html>"),
        Some(Fault::LoseRequest) => anyhow::bail!("broken on purpose"),
        Some(Fault::Pass | Fault::LoseReply | Fault::HoldReply) | None => {}
    }
    head.uri = format!("http://{provider}/").parse()?;
    let reply = client.request(Request::from_parts(head, Full::new(body))).await?;
    *plan.passed.lock().entry(action).or_default() += 1;
    let (head, body) = reply.into_parts();
    let body = body.collect().await?.to_bytes();
    match fault {
        Some(Fault::LoseReply) => anyhow::bail!("broken on purpose"),
        Some(Fault::HoldReply) => {
            plan.holding.notify_one();
            std::future::pending().await
        }
        Some(Fault::Pass | Fault::Answer(..) | Fault::Nonsense(_) | Fault::LoseRequest) | None => {
            Ok(Response::from_parts(head, Full::new(body)))
        }
    }
}

fn action_of(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    let action = text.split('&').find_map(|it| it.strip_prefix("Action="));
    action.unwrap_or_default().to_owned()
}

fn ec2_error(code: &str) -> String {
    format!(
        "<Response><Errors><Error><Code>{code}</Code><Message>injected</Message></Error></Errors>\
         <RequestID>0</RequestID></Response>"
    )
}

fn answer(status: u16, body: &str) -> anyhow::Result<Response<Full<Bytes>>> {
    let mut response = Response::new(Full::new(Bytes::copy_from_slice(body.as_bytes())));
    *response.status_mut() = StatusCode::from_u16(status)?;
    Ok(response)
}
