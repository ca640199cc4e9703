//! Who asks: a client of a tenant, with a token that is fetched when the last one has ended.
use serde::Deserialize;
use std::fmt;
use std::time::Duration;
use tokio::time::Instant;

/// The public cloud.
const RESOURCE_MANAGER: &str = "https://management.azure.com";
const LOGIN: &str = "https://login.microsoftonline.com";
/// A token is not used in the last moments of its life: the request has to arrive too.
const MARGIN: Duration = Duration::from_secs(120);

/// What a subscription is asked with; the file that a server is told holds it as JSON.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Credentials {
    pub tenant_id: String,
    pub client_id: String,
    pub client_secret: String,
    /// Of another cloud, without a slash at its end.
    #[serde(default = "resource_manager")]
    pub resource_manager: String,
    #[serde(default = "login")]
    pub login: String,
}

/// Leaves the secret out.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials")
            .field("tenant_id", &self.tenant_id)
            .field("client_id", &self.client_id)
            .field("resource_manager", &self.resource_manager)
            .finish_non_exhaustive()
    }
}

fn resource_manager() -> String {
    RESOURCE_MANAGER.to_owned()
}

fn login() -> String {
    LOGIN.to_owned()
}

impl Credentials {
    pub fn token_url(&self) -> String {
        format!("{}/{}/oauth2/v2.0/token", self.login, self.tenant_id)
    }

    /// The form of a client-credentials grant.
    pub fn form(&self) -> String {
        form_urlencoded::Serializer::new(String::new())
            .append_pair("grant_type", "client_credentials")
            .append_pair("client_id", &self.client_id)
            .append_pair("client_secret", &self.client_secret)
            .append_pair("scope", &format!("{}/.default", self.resource_manager))
            .finish()
    }
}

/// What the login answers.
#[derive(Deserialize)]
pub struct TokenReply {
    access_token: String,
    expires_in: u64,
}

/// A token that still counts.
pub struct Token {
    pub bearer: String,
    ends: Instant,
}

impl Token {
    pub fn new(reply: TokenReply, now: Instant) -> Self {
        let life = Duration::from_secs(reply.expires_in).saturating_sub(MARGIN);
        Self { bearer: reply.access_token, ends: now + life }
    }

    pub fn is_good(&self, now: Instant) -> bool {
        now < self.ends
    }
}
