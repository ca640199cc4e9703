//! Classes and secrets, as drivers read them.
use super::refs::{class_key, meta};
use super::views::{Views, Watches};
use crate::drivers::source::{ClassChanged, SecretChanged, SourceError};
use crate::drivers::wire::narrow;
use crate::drivers::{
    Class, ClassRef, ClassSource, DriverKey, SecretRef, SecretSource, SecretValue,
};
use async_trait::async_trait;
use base64::Engine as _;
use orrery_api::{JsonOptions, Object, ProjectKey, Scheme};
use orrery_hub::{Error, Hub, ObjectName, Resources};
use orrery_proto::core::v1::Secret;
use orrery_proto::infra::v1::{MachineClass, MachineSet};
use orrery_proto::meta::v1::ObjectMeta;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::broadcast;

/// Changes that a slow listener may be behind; beyond, everything counts as changed.
const CHANGES_MAX: usize = 256;

/// The REST path of a class, by which operations and drivers name it.
pub fn class_path(scheme: &Scheme, project: &str, class: &str) -> String {
    match scheme.kind_of::<MachineClass>() {
        Ok(kind) => {
            format!("/apis/{}/namespaces/{project}/{}/{class}", kind.api_version(), kind.plural())
        }
        // Without the kind there is no class to name.
        Err(_) => class.to_owned(),
    }
}

/// Another one for every write of a secret.
pub fn secret_revision(metadata: &Option<ObjectMeta>) -> i64 {
    meta(metadata).resource_version.parse().unwrap_or_default()
}

pub struct Sources {
    hub: Hub,
    views: Arc<Views>,
    classes: Resources<MachineClass>,
    sets: Resources<MachineSet>,
    secrets: Resources<Secret>,
    class_changes: broadcast::Sender<ClassChanged>,
    secret_changes: broadcast::Sender<SecretChanged>,
}

impl Sources {
    /// Hears of every change through the watches.
    pub fn new(hub: &Hub, watches: &mut Watches) -> Result<Arc<Self>, Error> {
        let (class_changes, _) = broadcast::channel(CHANGES_MAX);
        let (secret_changes, _) = broadcast::channel(CHANGES_MAX);
        let (tell, scheme) = (class_changes.clone(), hub.scheme().clone());
        watches.classes.on_change(move |change| {
            let class = change.new.as_ref().or(change.old.as_ref());
            let Some(key) = class.and_then(|it| it.spec.as_ref()).map(class_key) else { return };
            let revision = class.map_or(0, |it| meta(&it.metadata).generation);
            let path = class_path(&scheme, &change.name.project, &change.name.name);
            // Nobody listens when no driver is connected.
            let _ = tell.send(ClassChanged { path, key, revision });
        });
        let tell = secret_changes.clone();
        watches.secrets.on_change(move |change| {
            let ObjectName { project, name } = change.name.clone();
            let secret = change.new.as_ref().or(change.old.as_ref());
            let revision = secret.map_or(0, |it| secret_revision(&it.metadata));
            let _ = tell.send(SecretChanged { secret: SecretRef { project, name }, revision });
        });
        Ok(Arc::new(Self {
            hub: hub.clone(),
            views: watches.views.clone(),
            classes: hub.resources()?,
            sets: hub.resources()?,
            secrets: hub.resources()?,
            class_changes,
            secret_changes,
        }))
    }

    /// Where the class is; for a bare name only if there is one of that name.
    fn locate(&self, at: &ClassRef) -> Option<ObjectName> {
        if let Some(project) = &at.project {
            return Some(ObjectName::new(project, &at.name));
        }
        let mut named = self.views.classes.names().into_iter().filter(|it| it.name == at.name);
        let only = named.next()?;
        named.next().is_none().then_some(only)
    }

    /// The class as it was, in a set that was made from it.
    async fn earlier(&self, at: &ObjectName, revision: i32) -> Result<Option<Class>, Error> {
        let made_from = |set: &MachineSet| {
            let spec = set.spec.as_ref()?;
            let template = spec.template.as_ref()?;
            let fits = template.class() == at.name
                && template.class_revision.is_some_and(|it| narrow(it) == revision);
            (fits && spec.class_snapshot.is_some()).then_some(())
        };
        let sets = self.views.sets.all().into_iter();
        let mut sets =
            sets.filter(|(name, set)| name.project == at.project && made_from(set).is_some());
        let Some((name, _)) = sets.next() else { return Ok(None) };
        let object = super::ignore_gone(self.sets.accessor().get(name.into()).await)?;
        let Some(object) = object else { return Ok(None) };
        let set: MachineSet = object.typed().map_err(unreadable)?;
        let spec = set.spec.unwrap_or_default();
        let Some(snapshot) = spec.class_snapshot else { return Ok(None) };
        let json = object.to_json_value(&namespaced());
        let metadata = json!({"name": at.name, "namespace": at.project});
        let revision = spec.template.and_then(|it| it.class_revision).unwrap_or_default();
        Ok(Some(Class {
            path: class_path(self.hub.scheme(), &at.project, &at.name),
            key: class_key(&snapshot),
            revision,
            json: class_json(&json["spec"]["classSnapshot"], metadata).to_string(),
        }))
    }

    fn present(&self, object: &Object) -> Result<Class, Error> {
        let class: MachineClass = object.typed().map_err(unreadable)?;
        let json = object.to_json_value(&namespaced());
        let mut metadata = json["metadata"].clone();
        if let Some(fields) = metadata.as_object_mut() {
            // Who set which field is long, and no driver's business.
            fields.remove("managedFields");
        }
        Ok(Class {
            path: class_path(self.hub.scheme(), object.project(), object.name()),
            key: class_key(&class.spec.unwrap_or_default()),
            revision: object.generation(),
            json: class_json(&json["spec"], metadata).to_string(),
        })
    }
}

fn namespaced() -> JsonOptions {
    JsonOptions { project_key: ProjectKey::Namespace }
}

/// The class as drivers expect it: the provider's kind, and the provider's fields as its spec.
fn class_json(spec: &Value, metadata: Value) -> Value {
    let mut fields = spec["providerSpec"].as_object().cloned().unwrap_or_default();
    if let Some(secret) = spec["secret"].as_str() {
        let reference = json!({"name": secret, "namespace": metadata["namespace"]});
        fields.insert("secretRef".to_owned(), reference);
    }
    json!({
        "apiVersion": spec["providerVersion"],
        "kind": spec["provider"],
        "metadata": metadata,
        "spec": fields,
    })
}

fn unreadable(error: orrery_api::ObjectError) -> Error {
    Error::Internal(error.to_string())
}

fn failed(what: String) -> impl FnOnce(Error) -> SourceError {
    move |error| SourceError { what, reason: error.to_string() }
}

#[async_trait]
impl ClassSource for Sources {
    async fn class(&self, at: &ClassRef, revision: i32) -> Result<Option<Class>, SourceError> {
        let Some(name) = self.locate(at) else { return Ok(None) };
        let what = || format!("class {name}");
        let found = self.classes.accessor().get(name.clone().into()).await;
        let found = super::ignore_gone(found).map_err(failed(what()))?;
        if let Some(object) = &found
            && (revision == 0 || narrow(object.generation()) == revision)
        {
            return self.present(object).map(Some).map_err(failed(what()));
        }
        if let Some(earlier) = self.earlier(&name, revision).await.map_err(failed(what()))? {
            return Ok(Some(earlier));
        }
        found.map(|object| self.present(&object)).transpose().map_err(failed(what()))
    }

    async fn names_secret(&self, key: &DriverKey, secret: &SecretRef) -> Result<bool, SourceError> {
        let names = |project: &str, spec: Option<&orrery_proto::infra::v1::MachineClassSpec>| {
            project == secret.project
                && spec.is_some_and(|it| class_key(it) == *key && it.secret() == secret.name)
        };
        let classes = self.views.classes.all();
        let now = classes.iter().any(|(name, class)| names(&name.project, class.spec.as_ref()));
        if now {
            return Ok(true);
        }
        let sets = self.views.sets.all();
        Ok(sets.iter().any(|(name, set)| {
            names(&name.project, set.spec.as_ref().and_then(|it| it.class_snapshot.as_ref()))
        }))
    }

    fn changes(&self) -> broadcast::Receiver<ClassChanged> {
        self.class_changes.subscribe()
    }
}

#[async_trait]
impl SecretSource for Sources {
    async fn secret(&self, at: &SecretRef) -> Result<Option<SecretValue>, SourceError> {
        let name = ObjectName::new(&at.project, &at.name);
        let found = self.secrets.find(&name).await.map_err(failed(format!("secret {at}")))?;
        let Some(secret) = found else { return Ok(None) };
        let encode = |bytes: &Vec<u8>| base64::engine::general_purpose::STANDARD.encode(bytes);
        let data = secret.spec.as_ref().map(|spec| {
            spec.data.iter().map(|(key, value)| (key.clone(), Value::from(encode(value)))).collect()
        });
        let json = json!({
            "apiVersion": secret.api_version,
            "kind": secret.kind,
            "metadata": {"name": at.name, "namespace": at.project},
            "data": Value::Object(data.unwrap_or_default()),
        });
        let revision = secret_revision(&secret.metadata);
        Ok(Some(SecretValue { revision, json: json.to_string() }))
    }

    fn changes(&self) -> broadcast::Receiver<SecretChanged> {
        self.secret_changes.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drivers_get_the_class_they_know() {
        let spec = json!({
            "provider": "AWSMachineClass", "providerVersion": "infra.orrery.dev/v1",
            "providerSpec": {"ami": "ami-1"}, "secret": "cloud",
        });
        let class = class_json(&spec, json!({"name": "small", "namespace": "shop"}));
        assert_eq!(class["kind"], "AWSMachineClass");
        assert_eq!(class["spec"]["ami"], "ami-1");
        assert_eq!(class["spec"]["secretRef"], json!({"name": "cloud", "namespace": "shop"}));
        let bare = class_json(&json!({"provider": "K"}), json!({}));
        assert_eq!(bare["spec"], json!({}));
    }
}
