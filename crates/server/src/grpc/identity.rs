//! `orrery.identity.v1.Identity`: joining, renewing, trust. A thin adapter.
use crate::identity::Guard;
use crate::identity::Identities;
use orrery_access::joining::{Joined, Wanted};
use orrery_access::{
    Access, Attributes, Authorities, AuthorityProblem, JoinRefusal, Joining, Rule,
};
use orrery_api::Scheme;
use orrery_fleet::middleware::Peer;
use orrery_hub::{Error, Hub};
use orrery_pki::Subject;
use orrery_proto::identity::v1 as wire;
use orrery_proto::identity::v1::identity_server::{Identity, IdentityServer};
use std::collections::BTreeSet;
use std::sync::Arc;
use tonic::{Request, Response, Status};

/// Largest request: a certificate request of the largest size, with room to spare.
const MESSAGE_BYTES_MAX: usize = 64 << 10;

/// Who finishes a rotation must not be locked out by it.
const LEFT_BEHIND: &str = "your own certificate is of an authority that would be trusted no longer, and you with it; \
    come back with one of the new authority (the server keeps one in pki/admin of its data folder), or with an access \
    token";

/// How many of those who would be left behind are named.
const NAMED_MAX: usize = 20;

pub struct IdentityService {
    access: Access,
    joining: Joining,
    authorities: Authorities,
    guard: Guard,
    scheme: Arc<Scheme>,
}

impl IdentityService {
    pub fn server(
        hub: &Hub,
        identities: Identities,
        access: Access,
    ) -> Result<IdentityServer<Self>, Error> {
        let authorities = identities.authorities().clone();
        let lifetime = identities.lifetime();
        let joining = Joining::new(hub, authorities.clone(), access.clone(), lifetime)?;
        let (guard, scheme) = (Guard::new(access.clone()), hub.scheme().clone());
        Ok(IdentityServer::new(Self { access, joining, authorities, guard, scheme })
            .max_decoding_message_size(MESSAGE_BYTES_MAX))
    }

    fn guard(&self, peer: &Peer) -> Guard {
        self.guard.of(peer.subject())
    }

    /// What is asked about, in the words of rules. A kind that is not known is asked about as it is
    /// written: nobody but those who may do everything is allowed anything with it.
    fn attributes(&self, request: &wire::CanIRequest) -> Attributes {
        let wire::CanIRequest { verb, resource, subresource, project, name } = request;
        let asked = match self.scheme.resolve("", resource) {
            Ok(kind) if kind.cluster_scoped() => {
                Attributes::new(verb, kind.group(), kind.plural()).named("", name)
            }
            Ok(kind) => Attributes::new(verb, kind.group(), kind.plural()).named(project, name),
            Err(_) => Attributes::new(verb, "core", resource).named(project, name),
        };
        asked.part(subresource)
    }
}

#[tonic::async_trait]
impl Identity for IdentityService {
    async fn join(
        &self,
        request: Request<wire::JoinRequest>,
    ) -> Result<Response<wire::JoinResponse>, Status> {
        let peer = peer(&request);
        if !peer.encrypted {
            let problem = "joining needs an encrypted connection; start the server with --tls";
            return Err(Status::failed_precondition(problem));
        }
        let wire::JoinRequest { token, secret, role, name, request } = request.into_inner();
        let wanted = Wanted { token: token.clone(), secret, role, name: name.clone(), request };
        match self.joining.join(wanted).await {
            Ok(joined) => {
                let serial = &joined.signed.identity.serial;
                tracing::info!(token, name, serial, address = ?peer.address, "a machine has joined");
                Ok(Response::new(response(joined)))
            }
            Err(refusal) => Err(refused(&peer, &token, &refusal)),
        }
    }

    async fn renew(
        &self,
        request: Request<wire::RenewRequest>,
    ) -> Result<Response<wire::JoinResponse>, Status> {
        let peer = peer(&request);
        let Some(identity) = &peer.identity else {
            return Err(Status::unauthenticated("show the certificate that should be renewed"));
        };
        match self.joining.renew(identity, &request.get_ref().request) {
            Ok(joined) => {
                let name = identity.spiffe.as_ref().map(ToString::to_string);
                let serial = &joined.signed.identity.serial;
                tracing::info!(name, serial, "a certificate was renewed");
                Ok(Response::new(response(joined)))
            }
            Err(refusal) => Err(refused(&peer, "", &refusal)),
        }
    }

    async fn trust(
        &self,
        request: Request<wire::TrustRequest>,
    ) -> Result<Response<wire::TrustResponse>, Status> {
        let peer = peer(&request);
        let current = self.authorities.current();
        let problem = match self.authorities.signer() {
            _ if !peer.encrypted => "this server takes plain connections, which need no certificates; start it with --tls".to_owned(),
            Ok(_) => String::new(),
            Err(problem) => problem.to_string(),
        };
        let renew = match (&peer.identity, &current) {
            (Some(identity), Some(current)) => problem.is_empty() && !current.has_signed(identity),
            (_, _) => false,
        };
        let (roots, authority) = current.map_or_else(Default::default, |current| {
            (current.roots_pem().to_owned(), current.fingerprint().to_string())
        });
        let authority = if problem.is_empty() { authority } else { String::new() };
        Ok(Response::new(wire::TrustResponse { roots, authority, problem, renew }))
    }

    async fn rotate(
        &self,
        request: Request<wire::RotateRequest>,
    ) -> Result<Response<wire::RotateResponse>, Status> {
        let peer = peer(&request);
        let guard = self.guard(&peer);
        let checked = guard.check_resource("update", "authorities", "", "", "");
        checked.map_err(|error| Status::permission_denied(error.to_string()))?;
        let wire::RotateRequest { finish, force } = *request.get_ref();
        let current = self.authorities.current();
        let leaves = |identity: &orrery_pki::Identity| {
            current.as_ref().is_some_and(|known| known.leaves(identity))
        };
        if finish && peer.identity.as_ref().is_some_and(leaves) {
            return Err(Status::failed_precondition(LEFT_BEHIND));
        }
        let behind = |identity: &orrery_pki::Identity| self.authorities.leaves_behind(identity);
        let others = self.access.present().only(behind);
        if finish && !force && !others.is_empty() {
            return Err(Status::failed_precondition(left_behind(&others)));
        }
        let rotated = if finish {
            self.authorities.finish_rotation().await
        } else {
            self.authorities.rotate().await
        };
        let current = rotated.map_err(|problem| problem_status(&problem))?;
        let fingerprint = current.fingerprint();
        tracing::warn!(%fingerprint, finish, address = ?peer.address, "the authority was rotated");
        Ok(Response::new(wire::RotateResponse { roots: current.roots_pem().to_owned() }))
    }

    async fn who_am_i(
        &self,
        request: Request<wire::WhoAmIRequest>,
    ) -> Result<Response<wire::WhoAmIResponse>, Status> {
        let Subject { name, groups, known_by, .. } = peer(&request).subject();
        let known_by = known_by.as_str().to_owned();
        Ok(Response::new(wire::WhoAmIResponse { name, groups, known_by }))
    }

    async fn can_i(
        &self,
        request: Request<wire::CanIRequest>,
    ) -> Result<Response<wire::CanIResponse>, Status> {
        let guard = self.guard(&peer(&request));
        let asked = request.into_inner();
        if asked.verb.is_empty() {
            let permissions = guard.permissions(&asked.project).into_iter().map(permission);
            let permissions = permissions.collect();
            return Ok(Response::new(wire::CanIResponse { permissions, ..<_>::default() }));
        }
        let decision = guard.decide(&self.attributes(&asked));
        let (allowed, reason) = (decision.allowed(), decision.reason().to_owned());
        Ok(Response::new(wire::CanIResponse { allowed, reason, permissions: Vec::new() }))
    }
}

/// Who would be locked out, and what to do about it.
fn left_behind(names: &BTreeSet<String>) -> String {
    let mut named: Vec<&str> = names.iter().take(NAMED_MAX).map(String::as_str).collect();
    let more = format!("and {} more", names.len().saturating_sub(NAMED_MAX));
    if NAMED_MAX < names.len() {
        named.push(&more);
    }
    format!(
        "these are connected to this server with certificates of an authority that would be trusted no longer, and would \
         have to join anew: {}; machines renew theirs within ten minutes, those made by hand are to be issued anew. Try \
         again later, or lock them out with --force",
        named.join(", ")
    )
}

fn permission(rule: Rule) -> wire::Permission {
    let Rule { verbs, groups, resources, names } = rule;
    wire::Permission { verbs, groups, resources, names }
}

fn peer<T>(request: &Request<T>) -> Peer {
    request.extensions().get::<Peer>().cloned().unwrap_or_default()
}

fn response(joined: Joined) -> wire::JoinResponse {
    wire::JoinResponse { certificate: joined.signed.certificate_pem, roots: joined.roots_pem }
}

/// The log is told why; the caller only what it may know.
fn refused(peer: &Peer, token: &str, refusal: &JoinRefusal) -> Status {
    tracing::warn!(token, address = ?peer.address, reason = %refusal, "a certificate was refused");
    let told = refusal.told();
    match refusal {
        JoinRefusal::NoToken(_) | JoinRefusal::Expired | JoinRefusal::UsedUp => {
            Status::unauthenticated(told)
        }
        JoinRefusal::NotForYou { .. }
        | JoinRefusal::BadRole
        | JoinRefusal::OtherKey
        | JoinRefusal::Revoked { .. } => Status::permission_denied(told),
        JoinRefusal::BadName(_) | JoinRefusal::Request(_) => Status::invalid_argument(told),
        JoinRefusal::Off(_) => Status::unimplemented(told),
        JoinRefusal::Busy | JoinRefusal::Hub(_) => Status::unavailable(told),
        JoinRefusal::Authority(_) => Status::internal(told),
    }
}

fn problem_status(problem: &AuthorityProblem) -> Status {
    match problem {
        AuthorityProblem::Hub(_) => Status::unavailable(problem.to_string()),
        AuthorityProblem::NoKey
        | AuthorityProblem::None
        | AuthorityProblem::Another(_)
        | AuthorityProblem::Authority(_) => Status::permission_denied(problem.to_string()),
    }
}
