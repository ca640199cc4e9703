//! What a driver is asked and what it answers.
use crate::{DataProvider, Error};
use base64::Engine;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use tokio::time::Instant;

/// The key of the cloud config in a secret.
pub const USER_DATA: &str = "userData";
/// The key of the join token in the bootstrap secret of a machine.
pub const JOIN_TOKEN: &str = "joinToken";

/// A provider. Operations run concurrently; each may be dropped at any await when its deadline
/// passes or the server cancels it, and may be asked for again: make them idempotent.
#[async_trait::async_trait]
pub trait Driver: Send + Sync + 'static {
    /// Makes a machine and answers when the provider has accepted it. If there is one already with
    /// this request's idempotency key (a tag at the provider), adopts that one.
    async fn create(&self, request: &Request) -> Result<Created, Error>;

    /// Deletes the machine `request.machine_id`; one that is not there counts as deleted.
    async fn delete(&self, request: &Request) -> Result<(), Error>;

    /// All machines of the class that this driver made; with a `machine_id` just that one.
    async fn list(&self, request: &Request) -> Result<Vec<Machine>, Error>;

    /// The machine `request.machine_id`. Without an implementation of its own it is looked up in
    /// the list.
    async fn status(&self, request: &Request) -> Result<Machine, Error> {
        let all = self.list(request).await?;
        let wanted = |it: &Machine| it.id == request.machine_id;
        let missing = || Error::not_found(format!("there is no machine {}", request.machine_id));
        all.into_iter().find(wanted).ok_or_else(missing)
    }
}

/// One operation, and the way to what it names.
#[derive(Clone, Debug)]
pub struct Request {
    /// The REST path or name of the class.
    pub class: String,
    pub class_revision: i32,
    pub machine_id: String,
    pub machine_name: String,
    /// The same for every attempt at the same operation. Empty from a server of the first contract.
    pub idempotency_key: String,
    /// What this driver said last about this machine.
    pub last_known_state: String,
    /// The secret of this one machine.
    pub bootstrap: Option<SecretRef>,
    pub trace_parent: String,
    pub deadline: Option<Instant>,
    pub data: DataProvider,
}

impl Request {
    /// An operation on a class, with nothing else said; for testing a driver without a server.
    pub fn on(class: &str, data: DataProvider) -> Self {
        Self {
            class: class.into(),
            class_revision: 1,
            machine_id: String::new(),
            machine_name: String::new(),
            idempotency_key: String::new(),
            last_known_state: String::new(),
            bootstrap: None,
            trace_parent: String::new(),
            deadline: None,
            data,
        }
    }

    /// The class that this operation is about.
    pub async fn class(&self) -> Result<Arc<Class>, Error> {
        self.data.class(&self.class, self.class_revision).await
    }

    /// The secret that the class names: cloud config and credentials.
    pub async fn secret(&self, class: &Class) -> Result<Arc<Secret>, Error> {
        self.data.secret(&class.secret_ref()?).await
    }

    /// What the new machine's agent joins with, if it needs anything.
    pub async fn join_token(&self) -> Result<Option<String>, Error> {
        let Some(at) = &self.bootstrap else { return Ok(None) };
        let own = self.data.secret(at).await?;
        Ok(own.text(JOIN_TOKEN).ok().map(str::to_owned))
    }

    /// What the new machine is to be told at its first start: the cloud config of the class, with
    /// `${orrery:machineName}` replaced by the name of the machine and each `${orrery:KEY}` by the value
    /// of KEY in the machine's own bootstrap secret. If
    /// the bootstrap secret holds a cloud config itself, that one is used.
    pub async fn user_data(&self, class: &Class) -> Result<String, Error> {
        let of_class = self.secret(class).await?;
        let text = of_class.text(USER_DATA).unwrap_or_default();
        let mut text = text.replace("${orrery:machineName}", &self.machine_name);
        let Some(at) = &self.bootstrap else { return Ok(text) };
        let own = self.data.secret(at).await?;
        if let Ok(user_data) = own.text(USER_DATA) {
            return Ok(user_data.to_owned());
        }
        for key in own.keys() {
            text = text.replace(&format!("${{orrery:{key}}}"), own.text(key)?);
        }
        Ok(text)
    }
}

/// A machine that was made, or found and adopted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Created {
    pub provider_id: String,
    /// The name under which its agent will join.
    pub node_name: String,
    pub addresses: Vec<String>,
    pub last_known_state: String,
    pub adopted: bool,
}

/// A machine at the provider.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    pub id: String,
    pub name: String,
    pub addresses: Vec<String>,
    pub state: MachineState,
    /// The key it was created with, from its tag.
    pub idempotency_key: String,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MachineState {
    /// The provider does not say.
    #[default]
    Unknown,
    Pending,
    Running,
    Stopping,
    Stopped,
}

impl MachineState {
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unknown => "",
            Self::Pending => "pending",
            Self::Running => "running",
            Self::Stopping => "stopping",
            Self::Stopped => "stopped",
        }
    }
}

/// Names a secret.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SecretRef {
    pub namespace: String,
    pub name: String,
}

/// A machine class: apiVersion, kind, metadata and the provider's own spec.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    pub revision: i32,
    pub json: serde_json::Value,
}

impl Class {
    /// Reads the JSON that the server sends.
    pub fn parse(data: &str, revision: i32) -> Result<Self, Error> {
        let json = serde_json::from_str(data)
            .map_err(|error| Error::internal(format!("the class is no JSON: {error}")))?;
        Ok(Self { revision, json })
    }

    /// The provider's fields, as the type that the driver wants them to be.
    pub fn spec<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let spec = self.json.get("spec").unwrap_or(&serde_json::Value::Null);
        T::deserialize(spec).map_err(|error| Error::invalid(format!("spec of the class: {error}")))
    }

    pub fn name(&self) -> &str {
        self.text("/metadata/name")
    }

    /// The secret that the class names; without a namespace, the one of the class.
    pub fn secret_ref(&self) -> Result<SecretRef, Error> {
        let name = self.text("/spec/secretRef/name");
        if name.is_empty() {
            return Err(Error::invalid("spec.secretRef.name of the class is missing"));
        }
        let own = self.text("/spec/secretRef/namespace");
        let namespace = if own.is_empty() { self.text("/metadata/namespace") } else { own };
        Ok(SecretRef { namespace: namespace.into(), name: name.into() })
    }

    fn text(&self, pointer: &str) -> &str {
        self.json.pointer(pointer).and_then(serde_json::Value::as_str).unwrap_or_default()
    }
}

/// A secret with its values decoded. They never show in a log.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    pub revision: i32,
    values: BTreeMap<String, String>,
}

impl fmt::Debug for Secret {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys: Vec<&String> = self.values.keys().collect();
        out.debug_struct("Secret").field("revision", &self.revision).field("keys", &keys).finish()
    }
}

impl Secret {
    /// Reads the JSON that the server sends.
    pub fn parse(data: &str, revision: i32) -> Result<Self, Error> {
        #[derive(serde::Deserialize)]
        struct Object {
            #[serde(default)]
            data: BTreeMap<String, String>,
        }
        // Neither the parser's words nor the decoder's are passed on: they may quote the content.
        let object: Object = serde_json::from_str(data)
            .map_err(|_| Error::internal("the secret is no JSON object with a map of strings"))?;
        let mut values = BTreeMap::new();
        for (key, value) in object.data {
            let text = base64::engine::general_purpose::STANDARD.decode(value).ok();
            let text = text.and_then(|bytes| String::from_utf8(bytes).ok());
            let bad = || Error::invalid(format!("value {key:?} of the secret is no base64 text"));
            let text = text.ok_or_else(bad)?;
            values.insert(key, text);
        }
        Ok(Self { revision, values })
    }

    /// A value that must be there.
    pub fn text(&self, key: &str) -> Result<&str, Error> {
        let missing = || Error::invalid(format!("the secret has no value {key:?}"));
        self.values.get(key).map(String::as_str).ok_or_else(missing)
    }

    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorCode;

    #[test]
    fn a_secret_is_decoded_and_not_printed() {
        let secret = Secret::parse(r#"{"data":{"userData":"aHVudGVyMg=="}}"#, 3).expect("valid");
        assert_eq!(secret.text(USER_DATA), Ok("hunter2"));
        assert!(!format!("{secret:?}").contains("hunter2"));
        assert_eq!(secret.text("other").expect_err("absent").code, ErrorCode::InvalidArgument);
        for bad in ["", "7", r#"{"data":{"a":1}}"#, r#"{"data":{"a":"%%"}}"#] {
            let error = Secret::parse(bad, 1).expect_err(bad);
            assert!(!error.message.contains("%%"), "{error}");
        }
    }

    #[test]
    fn a_class_names_its_secret() {
        let check = |spec: &str, expect: Option<(&str, &str)>| {
            let data = format!(r#"{{"metadata":{{"namespace":"shop"}},"spec":{spec}}}"#);
            let found = Class::parse(&data, 1).expect("JSON").secret_ref().ok();
            let expect = expect.map(|(namespace, name)| SecretRef {
                namespace: namespace.into(),
                name: name.into(),
            });
            assert_eq!(found, expect, "{spec}");
        };
        check(r#"{"secretRef":{"name":"cloud"}}"#, Some(("shop", "cloud")));
        check(r#"{"secretRef":{"name":"cloud","namespace":"ops"}}"#, Some(("ops", "cloud")));
        check(r#"{"secretRef":{}}"#, None);
        check("{}", None);
    }

    #[test]
    fn a_wrong_spec_is_the_users_to_correct() {
        #[derive(Debug, serde::Deserialize)]
        struct Spec {
            #[allow(dead_code, reason = "only its absence matters")]
            ami: String,
        }
        let class = Class::parse(r#"{"spec":{}}"#, 1).expect("JSON");
        let error = class.spec::<Spec>().expect_err("ami is missing");
        assert_eq!(error.code, ErrorCode::InvalidArgument);
        assert!(error.message.contains("ami"), "{error}");
    }
}
