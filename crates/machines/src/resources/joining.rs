//! What a machine's agent joins with: a token of its own, in a secret of its own.
//!
//! The class's secret is for all machines of the class. What is of one machine travels in a bootstrap
//! secret, which the driver may read while it works on that machine. The token is good for one agent, of
//! this machine's name, and goes with the machine.
use super::refs::{clip, meta, named, owned_by, short_hash};
use crate::drivers::SecretRef;
use orrery_hub::{Clock, Error, Hub, ObjectName, Resources};
use orrery_pki::{Fingerprint, JoinToken as Token, Role};
use orrery_proto::core::v1::{JoinToken, JoinTokenSpec, Secret, SecretSpec};
use orrery_proto::infra::v1::Machine;
use orrery_proto::meta::v1::ObjectMeta;
use prost_types::Timestamp;
use std::collections::HashMap;
use std::sync::Arc;

/// The authority that signs here now; none where nobody can join by token.
pub type Authority = Arc<dyn Fn() -> Option<Fingerprint> + Send + Sync>;

/// How long a token is good for: longer than any machine takes to come up.
const LIFETIME_SECONDS: i64 = 7 * 86_400;
/// The keys of a bootstrap secret.
const JOIN_TOKEN: &str = "joinToken";

#[derive(Clone)]
pub struct Joining {
    secrets: Resources<Secret>,
    tokens: Resources<JoinToken>,
    clock: Arc<dyn Clock>,
    authority: Authority,
}

impl Joining {
    pub fn new(hub: &Hub, authority: Authority) -> Result<Self, Error> {
        let (secrets, tokens) = (hub.resources()?, hub.resources()?);
        Ok(Self { secrets, tokens, clock: hub.clock().clone(), authority })
    }

    /// The bootstrap secret of a machine that is to be made, with a token in it.
    pub async fn bootstrap(&self, machine: &Machine) -> Result<Option<SecretRef>, Error> {
        let Some(authority) = (self.authority)() else { return Ok(None) };
        let own = meta(&machine.metadata);
        let name = ObjectName::new(&own.project, secret_name(own));
        if self.secrets.find(&name).await?.is_none() {
            let token = Token::generate(token_name(own), authority);
            // One of an attempt that was broken off has a secret that nobody knows.
            self.tokens.delete(&ObjectName::new("", token.id())).await?;
            self.tokens.create(&self.token(&token, own)).await?;
            self.secrets.create(&secret(&token, machine, &name)).await?;
        }
        Ok(Some(SecretRef { project: name.project, name: name.name }))
    }

    /// The machine is no more: nobody joins in its name. Its secret goes with it.
    pub async fn forget(&self, machine: &Machine) -> Result<(), Error> {
        self.tokens.delete(&ObjectName::new("", token_name(meta(&machine.metadata)))).await
    }

    fn token(&self, token: &Token, own: &ObjectMeta) -> JoinToken {
        let now = self.clock.now();
        let spec = JoinTokenSpec {
            role: Some(Role::Agent.as_str().to_owned()),
            peer: Some(own.name.clone()),
            secret_hash: Some(token.hash().to_string()),
            expires_at: Some(Timestamp { seconds: now.seconds + LIFETIME_SECONDS, nanos: 0 }),
            uses: Some(1),
        };
        let metadata = named(&ObjectName::new("", token.id()));
        JoinToken { metadata, spec: Some(spec), ..JoinToken::default() }
    }
}

fn secret(token: &Token, machine: &Machine, name: &ObjectName) -> Secret {
    let owner = owned_by(&machine.api_version, &machine.kind, meta(&machine.metadata));
    let metadata =
        named(name).map(|metadata| ObjectMeta { owner_references: vec![owner], ..metadata });
    let data = HashMap::from([(JOIN_TOKEN.to_owned(), token.to_text().as_bytes().to_vec())]);
    let r#type = Some("bootstrap".to_owned());
    let spec = SecretSpec { r#type, data, ..SecretSpec::default() };
    Secret { metadata, spec: Some(spec), ..Secret::default() }
}

/// Of this very machine: one that has its name later gets another.
fn secret_name(own: &ObjectMeta) -> String {
    format!("{}-join-{}", clip(&own.name, 44), short_hash(&[&own.uid], 8))
}

fn token_name(own: &ObjectMeta) -> String {
    format!("machine-{}", short_hash(&[&own.uid], 16))
}
