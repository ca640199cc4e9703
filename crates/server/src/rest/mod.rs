//! REST in the dialect of Kubernetes.
//!
//! ```text
//!   request ─> path ─> Target ─┬─ discovery, OpenAPI, reviews: answered from what is known
//!              query           └─ Call ─> read │ watch │ write │ delete ─> accessor
//!              accept                                                        │
//!   response <── Table, metadata, JSON or YAML <── render <── Object ────────┘
//!             <── Status <── Failure
//! ```
//! Thin: it decodes, calls the accessor and encodes. What may be written, and what becomes of it, the
//! hub decides.
mod accept;
mod access;
mod artifacts;
mod body;
mod call;
mod catalog;
mod compress;
mod decode;
mod definitions;
mod delete;
mod discovery;
mod exec;
mod faces;
mod failure;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
mod gated;
mod health;
mod impersonation;
mod logs;
mod methods;
mod metrics;
mod older;
mod openapi;
mod patching;
mod path;
mod query;
mod read;
mod render;
mod resource;
mod review;
mod scale;
mod selection;
mod sockets;
mod strategic;
mod table;
mod versions;
mod watch;
mod wire;
mod write;

use crate::browsers::is_grpc;
use crate::gate::Gate;
use crate::identity::Guard;
use crate::metrics::Metrics;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use call::Call;
use catalog::Catalog;
use discovery::Discovery;
use failure::Failure;
pub use gated::verb;
pub use impersonation::is_wanted as impersonates;
use openapi::OpenApi;
use orrery_access::Access;
use orrery_fleet::Fleet;
use orrery_fleet::middleware::Peer;
use orrery_hub::{Error, Hub, Part};
use path::{Sub, Target};
use query::Query;
use resource::Resource;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Everything that answers need.
struct Rest {
    hub: Hub,
    catalog: Catalog,
    discovery: Discovery,
    openapi: OpenApi,
    guard: Guard,
    gate: Gate,
    metrics: Arc<Metrics>,
    uploads: artifacts::Uploads,
    fleet: Arc<Fleet>,
    execs: exec::Execs,
    /// What goes on over WebSockets after their requests are answered.
    sockets: TaskTracker,
    stop: CancellationToken,
}

/// The routes of the dialect; streams end when `stop` is cancelled, and what goes over WebSockets runs in `sockets`. Merge them
/// into the router of other services, and give that [`unknown`] as its fallback.
pub fn router(
    hub: Hub,
    access: Access,
    gate: Gate,
    metrics: Arc<Metrics>,
    (fleet, sockets): (Arc<Fleet>, TaskTracker),
    stop: CancellationToken,
) -> Result<Router, Error> {
    let catalog = Catalog::new(&hub)?;
    let discovery = Discovery::new(&catalog);
    let openapi = OpenApi::new(hub.scheme().clone());
    let uploads = artifacts::Uploads::default();
    let rest = Arc::new(Rest {
        hub: hub.clone(),
        catalog,
        discovery,
        openapi,
        guard: Guard::new(access),
        gate,
        metrics,
        uploads,
        fleet,
        execs: exec::Execs::default(),
        sockets,
        stop,
    });
    let routes = Router::new()
        .route("/metrics", get(metrics::metrics))
        .route("/openapi/v2", get(openapi::v2))
        .route("/openapi/v3", get(openapi::index))
        .route("/openapi/v3/{*path}", get(openapi::document))
        .route(definitions::PATH, get(definitions::list).fallback(dispatch))
        .route(definitions::ONE, get(definitions::get).fallback(dispatch));
    let routes = ["/api", "/api/", "/api/{*path}", "/apis", "/apis/", "/apis/{*path}"]
        .into_iter()
        .fold(routes, |routes, path| routes.route(path, any(dispatch)));
    let gated = axum::middleware::from_fn_with_state(rest.clone(), gated::gated);
    let sockets = axum::middleware::from_fn_with_state(rest.clone(), sockets::watches);
    let routes = routes
        .layer(axum::middleware::from_fn(compress::large))
        .layer(axum::middleware::from_fn(access::only_known))
        .layer(gated)
        .layer(sockets)
        .with_state(rest);
    let routes = routes.layer(axum::middleware::from_fn(older::watches));
    Ok(routes.merge(health::router(hub.store().clone())))
}

/// What is at no path that we know. Callers of gRPC are answered in their own language, and browsers that were
/// given the bare address find the console.
pub async fn unknown(uri: Uri, headers: HeaderMap) -> Response {
    if is_grpc(&headers) {
        return tonic::Status::unimplemented("there is no such service").into_http();
    }
    if uri.path() == "/" && orrery_console::wants_pages(&headers) {
        return orrery_console::redirect();
    }
    Failure::unknown_path().into_response()
}

/// What somebody is told who has not proven who they are.
pub fn unauthorized() -> Response {
    Failure::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized").into_response()
}

/// What somebody is told who is turned away at the door.
pub fn forbidden(why: String) -> Response {
    Failure::new(StatusCode::FORBIDDEN, "Forbidden", why).into_response()
}

async fn dispatch(State(rest): State<Arc<Rest>>, request: Request) -> Response {
    let uri = request.uri().clone();
    let response = rest.answer(request).await.unwrap_or_else(IntoResponse::into_response);
    methods::allow(&rest, &uri, response)
}

impl Rest {
    async fn answer(&self, request: Request) -> Result<Response, Failure> {
        let target = path::resolve(&self.catalog, request.uri().path());
        let reads = matches!(*request.method(), Method::GET | Method::HEAD);
        if !reads {
            body::check_encoding(request.headers())?;
        }
        let target = target.ok_or_else(Failure::unknown_path)?;
        methods::check(&target, request.method())?;
        match target {
            Target::Review { review, project } => {
                review::answer(self, review, &project, request).await
            }
            Target::Collection { resource, project } => {
                self.collection(resource, project, request).await
            }
            Target::Object { resource, name, sub: Sub::Log } => {
                logs::get(self, &resource, &name, request).await
            }
            Target::Object { resource, name, sub: Sub::Exec } => {
                exec::begin(self, &resource, &name, request).await
            }
            Target::Object { resource, name, sub } => {
                self.object(resource, name, sub, request).await
            }
            Target::CoreVersions => self.discover(true, request.headers()),
            Target::Groups => self.discover(false, request.headers()),
            Target::Group(name) => self.discovery.group(&name),
            Target::GroupVersion { group, version } => self.discovery.resources(&group, &version),
        }
    }

    fn discover(&self, core: bool, headers: &HeaderMap) -> Result<Response, Failure> {
        Ok(self.discovery.root(core, accept::discovery_form(headers)?, headers))
    }

    async fn collection(
        &self,
        resource: Arc<Resource>,
        project: Option<String>,
        request: Request,
    ) -> Result<Response, Failure> {
        let method = request.method().clone();
        let (call, body) = self.call(resource, request)?;
        let place = project.as_deref().unwrap_or_default();
        let check = |verb: &str| call.check(verb, "", place, "");
        match method {
            Method::GET | Method::HEAD if call.query.watch => {
                call.check("watch", "", place, &call.selected_name())?;
                watch::watch(&call, project).await
            }
            Method::GET | Method::HEAD => {
                call.check("list", "", place, &call.selected_name())?;
                read::list(&call, project).await
            }
            Method::POST => {
                if let Err(failure) = check("create") {
                    return Ok(write::refused(&call, place, body, failure).await);
                }
                write::create(&call, &project.unwrap_or_default(), body).await
            }
            Method::DELETE => {
                check("deletecollection")?;
                delete::collection(&call, project, body).await
            }
            _ => Err(not_allowed()),
        }
    }

    async fn object(
        &self,
        resource: Arc<Resource>,
        name: orrery_hub::ObjectName,
        sub: Sub,
        mut request: Request,
    ) -> Result<Response, Failure> {
        let method = request.method().clone();
        if matches!(sub, Sub::Artifact(_)) {
            // A file is what it is, whatever the client would like better.
            request.headers_mut().remove(header::ACCEPT);
        }
        let verb = match method {
            Method::GET | Method::HEAD => "get",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            _ => return Err(not_allowed()),
        };
        let (call, body) = self.call(resource, request)?;
        call.check(verb, sub.name(), &name.project, &name.name)?;
        let answered = self.part(&call, verb, &name, sub, body).await;
        match answered {
            Err(failure) if verb != "get" => Err(call.explain_absence(&name, failure).await),
            answered => answered,
        }
    }

    async fn part(
        &self,
        call: &Call,
        verb: &str,
        name: &orrery_hub::ObjectName,
        sub: Sub,
        body: Body,
    ) -> Result<Response, Failure> {
        match (verb, sub) {
            ("get", Sub::Part(part)) => read::get(call, name, part).await,
            ("update", Sub::Part(part)) => write::replace(call, name, part, body).await,
            ("patch", Sub::Part(part)) => write::patch(call, name, part, body).await,
            ("delete", Sub::Part(Part::Main)) => delete::one(call, name, body).await,
            ("get", Sub::Scale) => scale::get(call, name).await,
            ("update", Sub::Scale) => scale::replace(call, name, body).await,
            ("patch", Sub::Scale) => scale::patch(call, name, body).await,
            ("get", Sub::Versions) => versions::list(call, name).await,
            ("get", Sub::Version(version)) => versions::get(call, name, version).await,
            ("get", Sub::Artifacts) => artifacts::list(call, name).await,
            ("get", Sub::Artifact(path)) => artifacts::get(call, name, &path).await,
            ("update", Sub::Artifact(path)) => {
                artifacts::put(call, name, &path, body, &self.uploads).await
            }
            ("delete", Sub::Artifact(path)) => artifacts::delete(call, name, &path).await,
            _ => Err(not_allowed()),
        }
    }

    /// What the one who asks may do.
    fn guard_of(&self, request: &Request) -> Guard {
        let peer = request.extensions().get::<Peer>().cloned().unwrap_or_default();
        self.guard.of(peer.subject()).borrowed(request.extensions().get().cloned())
    }

    fn call(&self, resource: Arc<Resource>, request: Request) -> Result<(Call, Body), Failure> {
        let guard = self.guard_of(&request);
        let (parts, body) = request.into_parts();
        let query = Query::parse(&parts.method, parts.uri.query().unwrap_or_default())?;
        let form = match query.watch && parts.method == Method::GET {
            true => accept::stream_form(&parts.headers)?,
            false => accept::form(&parts.headers)?,
        };
        let call = Call {
            guard,
            hub: self.hub.clone(),
            resource,
            query,
            form,
            headers: parts.headers,
            stop: self.stop.clone(),
        };
        Ok((call, body))
    }
}

fn not_allowed() -> Failure {
    Failure::method_not_allowed("the server does not allow this method on the requested resource")
}
