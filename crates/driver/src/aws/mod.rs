//! The driver for EC2: the query API, signed with version 4.
//!
//! Every instance carries three tags: whose it is, the idempotency key of the machine it was made
//! for, and its class. A create looks for its key first and adopts what it finds, so an answer that was lost
//! on any way never makes a second machine; a list finds all of a class, whatever else was lost.
mod client;
mod fault;
mod query;
mod reply;
pub mod spec;

use crate::{Created, Driver, Error, ErrorCode, Machine, Request, Secret};
use aws_credential_types::Credentials;
use base64::Engine;
use client::{Account, Client};
use query::{Start, TAG_CLASS, TAG_MACHINE};
use reply::{Described, Instance, Reservation};
use sha2::Digest;
use spec::Spec;

/// The kind that this driver registers with.
pub const KIND: &str = "AWSMachineClass";
/// The keys of the credentials in a class's secret.
pub const ACCESS_KEY_ID: &str = "providerAccessKeyId";
pub const SECRET_ACCESS_KEY: &str = "providerSecretAccessKey";
/// Only with temporary credentials.
pub const SESSION_TOKEN: &str = "providerSessionToken";

/// EC2 takes at most 64 characters.
const CLIENT_TOKEN_MAX: usize = 64;
/// Pages of a thousand instances; a bound against an endpoint that never ends.
const PAGES_MAX: usize = 100;
const ID_PREFIX: &str = "aws:///";

/// The driver.
pub struct Aws {
    client: Client,
    owner: String,
}

/// What an operation needs from its class.
struct Context {
    account: Account,
    spec: Spec,
}

impl Aws {
    /// `owner` names this installation among those that share the account. With an endpoint, all
    /// regions are asked there (a test server, a compatible cloud).
    pub fn new(owner: impl Into<String>, endpoint: Option<String>) -> Self {
        Self { client: Client::new(endpoint), owner: owner.into() }
    }

    async fn context(&self, request: &Request) -> Result<(Context, String), Error> {
        let class = request.class().await?;
        let spec: Spec = class.spec()?;
        spec.check()?;
        let secret = request.secret(&class).await?;
        let account = Account { region: spec.region.clone(), credentials: credentials(&secret)? };
        let user_data = request.user_data(&class).await?;
        Ok((Context { account, spec }, user_data))
    }

    /// Our live instances with this tag, the oldest first.
    async fn tagged(&self, at: &Context, tag: &str, value: &str) -> Result<Vec<Instance>, Error> {
        let mut all = Vec::new();
        let mut next: Option<String> = None;
        for _ in 0..PAGES_MAX {
            let query = query::describe_by_tag(&self.owner, (tag, value), next.as_deref());
            let page: Described = self.client.ask(&at.account, &query).await?;
            let (instances, more) = page.into_parts();
            all.extend(instances);
            if more.is_none() {
                all.sort_by(|a, b| {
                    (&a.launch_time, &a.instance_id).cmp(&(&b.launch_time, &b.instance_id))
                });
                return Ok(all);
            }
            next = more;
        }
        Err(Error::internal(format!("the provider's list has more than {PAGES_MAX} pages")))
    }

    /// The instance that was made for this key. If there are more, the oldest stays: which one that
    /// is, all who look agree on.
    async fn adopt(&self, at: &Context, key: &str) -> Result<Option<Instance>, Error> {
        let mut found = self.tagged(at, TAG_MACHINE, key).await?.into_iter();
        let Some(oldest) = found.next() else { return Ok(None) };
        let doubles: Vec<String> = found.map(|it| it.instance_id).collect();
        if !doubles.is_empty() {
            tracing::warn!(key, ?doubles, "one key, several machines: the younger ones go");
            self.terminate(at, &doubles).await?;
        }
        Ok(Some(oldest))
    }

    async fn start(&self, at: &Context, start: &Start<'_>) -> Result<Instance, Error> {
        let query = query::run_instances(&at.spec, start);
        let made: Reservation = self.client.ask(&at.account, &query).await?;
        made.into_first().ok_or_else(|| Error::internal("the provider started no instance"))
    }

    async fn terminate(&self, at: &Context, ids: &[String]) -> Result<(), Error> {
        let query = query::terminate(ids);
        match self.client.ask::<serde::de::IgnoredAny>(&at.account, &query).await {
            Err(error) if error.code == ErrorCode::NotFound => Ok(()),
            outcome => outcome.map(|_| ()),
        }
    }

    async fn describe(&self, at: &Context, machine_id: &str) -> Result<Option<Instance>, Error> {
        let query = query::describe_by_id(instance_id(machine_id, &at.spec.region)?);
        match self.client.ask::<Described>(&at.account, &query).await {
            Ok(page) => Ok(page.into_parts().0.into_iter().find(|it| !it.is_gone())),
            Err(error) if error.code == ErrorCode::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[async_trait::async_trait]
impl Driver for Aws {
    async fn create(&self, request: &Request) -> Result<Created, Error> {
        let (at, user_data) = self.context(request).await?;
        let key = machine_key(request)?;
        if let Some(instance) = self.adopt(&at, &key).await? {
            return Ok(created(&at, &instance, true));
        }
        let user_data = base64::engine::general_purpose::STANDARD.encode(user_data);
        let start = Start {
            owner: &self.owner,
            name: &request.machine_name,
            key: &key,
            class: &request.class,
            client_token: &client_token(&key),
            user_data: &user_data,
        };
        match self.start(&at, &start).await {
            Ok(instance) => Ok(created(&at, &instance, false)),
            // The answer may have been lost after the instance was started.
            Err(error) if is_open(error.code) => match self.adopt(&at, &key).await {
                Ok(Some(instance)) => Ok(created(&at, &instance, true)),
                Ok(None) | Err(_) => Err(error),
            },
            Err(error) => Err(error),
        }
    }

    async fn delete(&self, request: &Request) -> Result<(), Error> {
        let (at, _) = self.context(request).await?;
        let ids = if request.machine_id.is_empty() {
            let found = self.tagged(&at, TAG_MACHINE, &machine_key(request)?).await?;
            found.into_iter().map(|it| it.instance_id).collect()
        } else {
            vec![instance_id(&request.machine_id, &at.spec.region)?.to_owned()]
        };
        if ids.is_empty() { Ok(()) } else { self.terminate(&at, &ids).await }
    }

    async fn list(&self, request: &Request) -> Result<Vec<Machine>, Error> {
        let (at, _) = self.context(request).await?;
        let region = &at.spec.region;
        let found = if request.machine_id.is_empty() {
            self.tagged(&at, TAG_CLASS, &request.class).await?
        } else {
            let one = self.describe(&at, &request.machine_id).await?;
            one.into_iter().filter(|it| it.class() == request.class).collect()
        };
        Ok(found.into_iter().map(|it| it.into_machine(region)).collect())
    }

    async fn status(&self, request: &Request) -> Result<Machine, Error> {
        let (at, _) = self.context(request).await?;
        let missing = || Error::not_found(format!("there is no machine {}", request.machine_id));
        let instance = self.describe(&at, &request.machine_id).await?.ok_or_else(missing)?;
        Ok(instance.into_machine(&at.spec.region))
    }
}

fn credentials(secret: &Secret) -> Result<Credentials, Error> {
    let (id, key) = (secret.text(ACCESS_KEY_ID)?, secret.text(SECRET_ACCESS_KEY)?);
    let token = secret.text(SESSION_TOKEN).ok().map(str::to_owned);
    Ok(Credentials::new(id, key, token, None, "orrery"))
}

fn created(at: &Context, instance: &Instance, adopted: bool) -> Created {
    Created {
        provider_id: provider_id(&at.spec.region, &instance.instance_id),
        node_name: instance.node_name(),
        addresses: instance.addresses(),
        last_known_state: String::new(),
        adopted,
    }
}

/// Whether the provider may have done what was asked although there was an error.
fn is_open(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::Unavailable
            | ErrorCode::DeadlineExceeded
            | ErrorCode::Unknown
            | ErrorCode::Internal
    )
}

/// What the machine is known by. A server of the first contract sends no key; there the name, which
/// is unique for a class, has to do.
fn machine_key(request: &Request) -> Result<String, Error> {
    match (request.idempotency_key.as_str(), request.machine_name.as_str()) {
        ("", "") => Err(Error::invalid("the operation names no machine")),
        ("", name) => Ok(format!("{}#{name}", request.class)),
        (key, _) => Ok(key.to_owned()),
    }
}

/// The provider's own token: the key, or what stands for it if EC2 would not take it.
fn client_token(key: &str) -> String {
    let fits = key.len() <= CLIENT_TOKEN_MAX && key.bytes().all(|byte| byte.is_ascii_graphic());
    if fits { key.to_owned() } else { format!("{:x}", sha2::Sha256::digest(key)) }
}

fn provider_id(region: &str, instance: &str) -> String {
    format!("{ID_PREFIX}{region}/{instance}")
}

/// The instance in `aws:///region/instance`, or the bare id.
fn instance_id<'a>(machine_id: &'a str, region: &str) -> Result<&'a str, Error> {
    let Some(rest) = machine_id.strip_prefix(ID_PREFIX) else { return Ok(machine_id) };
    match rest.split_once('/') {
        Some((of, instance)) if of == region && !instance.is_empty() => Ok(instance),
        _ => Err(Error::invalid(format!("{machine_id:?} is no machine in {region}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_go_both_ways() {
        assert_eq!(instance_id(&provider_id("eu-west-1", "i-1"), "eu-west-1"), Ok("i-1"));
        assert_eq!(instance_id("i-1", "eu-west-1"), Ok("i-1"));
        for wrong in ["aws:///us-east-1/i-1", "aws:///eu-west-1", "aws:///eu-west-1/"] {
            assert!(instance_id(wrong, "eu-west-1").is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_client_token_fits() {
        assert_eq!(client_token("uid-1"), "uid-1");
        assert!(client_token(&"x".repeat(65)).len() <= CLIENT_TOKEN_MAX);
        assert_ne!(client_token("a b"), "a b");
        assert_eq!(client_token("a b"), client_token("a b"), "the same at every attempt");
    }
}
