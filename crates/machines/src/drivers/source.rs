//! What the edge reads on behalf of drivers: classes and secrets. The adapters that read them from
//! the hub live with the controllers; tests hand in a map.
use std::fmt;
use tokio::sync::broadcast;

/// Which driver serves a class: the (kind, group/version) it registered with.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DriverKey {
    pub kind: String,
    pub api_version: String,
}

impl DriverKey {
    pub fn new(kind: impl Into<String>, api_version: impl Into<String>) -> Self {
        Self { kind: kind.into(), api_version: api_version.into() }
    }
}

impl fmt::Display for DriverKey {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} ({})", self.kind, self.api_version)
    }
}

/// Names a class, as a driver or an operation does: by REST path or by bare name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClassRef {
    /// Group and version, if the path said them.
    pub api_version: Option<String>,
    /// Absent for a bare name: the source looks in all projects and answers only if there is one.
    pub project: Option<String>,
    pub name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} names no class; use a name or /apis/<group>/<version>/namespaces/<project>/<plural>/<name>"
)]
pub struct BadClassRef(pub String);

impl ClassRef {
    /// Reads a bare name or a REST path; `projects/` is taken for `namespaces/`.
    pub fn parse(text: &str) -> Result<Self, BadClassRef> {
        let bad = || BadClassRef(text.to_owned());
        let parts: Vec<&str> = text.strip_prefix('/').unwrap_or(text).split('/').collect();
        if parts.iter().any(|part| part.is_empty()) {
            return Err(bad());
        }
        match parts.as_slice() {
            [name] => Ok(Self { api_version: None, project: None, name: (*name).to_owned() }),
            ["apis", group, version, "namespaces" | "projects", project, _plural, name] => {
                Ok(Self {
                    api_version: Some(format!("{group}/{version}")),
                    project: Some((*project).to_owned()),
                    name: (*name).to_owned(),
                })
            }
            _ => Err(bad()),
        }
    }
}

/// Names a secret.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SecretRef {
    pub project: String,
    pub name: String,
}

impl fmt::Display for SecretRef {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.project, self.name)
    }
}

/// A class as a driver gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// The REST path; operations name the class so.
    pub path: String,
    /// The driver that serves it.
    pub key: DriverKey,
    /// The generation of the class object.
    pub revision: i64,
    /// The object: apiVersion, kind, metadata, spec with the provider's fields.
    pub json: String,
}

/// A secret as a driver gets it. Its content never shows in a log.
#[derive(Clone, PartialEq, Eq)]
pub struct SecretValue {
    pub revision: i64,
    /// The object, whose `data` map holds base64 values.
    pub json: String,
}

impl fmt::Debug for SecretValue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("SecretValue").field("revision", &self.revision).finish_non_exhaustive()
    }
}

/// The source cannot answer at the moment; the driver may ask again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot read {what}: {reason}")]
pub struct SourceError {
    pub what: String,
    pub reason: String,
}

/// A class that changed or went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassChanged {
    pub path: String,
    pub key: DriverKey,
    pub revision: i64,
}

/// A secret that changed or went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretChanged {
    pub secret: SecretRef,
    pub revision: i64,
}

#[async_trait::async_trait]
pub trait ClassSource: Send + Sync + 'static {
    /// The class, or `None` if there is none (or, for a bare name, more than one): as it was at this
    /// revision if that is still known, otherwise as it is.
    async fn class(&self, at: &ClassRef, revision: i32) -> Result<Option<Class>, SourceError>;

    /// Whether any class of this driver names this secret.
    async fn names_secret(&self, key: &DriverKey, secret: &SecretRef) -> Result<bool, SourceError>;

    /// Every change from now on. A receiver that lags behind is treated as "all may have changed".
    fn changes(&self) -> broadcast::Receiver<ClassChanged>;
}

#[async_trait::async_trait]
pub trait SecretSource: Send + Sync + 'static {
    async fn secret(&self, at: &SecretRef) -> Result<Option<SecretValue>, SourceError>;

    /// Every change from now on, without content.
    fn changes(&self) -> broadcast::Receiver<SecretChanged>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expect: Option<(Option<&str>, Option<&str>, &str)>) {
        let found = ClassRef::parse(text).ok();
        let expect = expect.map(|(api_version, project, name)| ClassRef {
            api_version: api_version.map(String::from),
            project: project.map(String::from),
            name: name.into(),
        });
        assert_eq!(found, expect, "{text}");
    }

    /// proves: MCH-04
    #[test]
    fn a_class_is_named_by_path_or_name() {
        check("small", Some((None, None, "small")));
        check(
            "/apis/machine.example/v1alpha1/namespaces/shop/awsmachineclasses/small",
            Some((Some("machine.example/v1alpha1"), Some("shop"), "small")),
        );
        check(
            "/apis/infra/v1/projects/shop/machineclasses/a",
            Some((Some("infra/v1"), Some("shop"), "a")),
        );
        check("", None);
        check("/", None);
        check("shop/small", None);
        check("/apis/infra/v1/namespaces//machineclasses/a", None);
        check("/api/v1/namespaces/shop/secrets/a", None);
    }

    #[test]
    fn a_secret_value_is_not_printed() {
        let secret = SecretValue { revision: 3, json: "hunter2".into() };
        assert!(!format!("{secret:?}").contains("hunter2"));
    }
}
