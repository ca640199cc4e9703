//! `orrery kubeconfig`: what kubectl needs to know to reach the server.
use crate::args::{Global, KubeconfigArguments};
use crate::connection::Target;
use crate::output::print;
use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as BASE64;
use orrery_client::context::Context;
use serde_json::{Value, json};
use std::path::Path;

/// The name of the server, the user and the context in the file, when our context has none.
const NAME: &str = "orrery";

pub fn run(global: &Global, arguments: &KubeconfigArguments) -> anyhow::Result<()> {
    let target = Target::find(global, &arguments.connection)?;
    let project = target.project(arguments.project.as_deref());
    let material = Material::read(target.context())?;
    let config = kubeconfig(target.context(), &project, material.as_ref());
    print::line(orrery_api::value_to_yaml(&config).trim_end())
}

/// What a context shows and trusts, as kubeconfigs carry it.
struct Material {
    root: Option<String>,
    proof: Proof,
}

enum Proof {
    Certificate { certificate: String, key: String },
    Token(String),
}

impl Material {
    fn read(context: &Context) -> anyhow::Result<Option<Self>> {
        if let Some(file) = &context.token_file {
            let token = orrery_pki::read_pem_file(file).context("read the access token")?;
            let root = context.root.as_deref().map(encoded).transpose()?;
            return Ok(Some(Self { root, proof: Proof::Token(token.trim().to_owned()) }));
        }
        match (&context.root, &context.certificate, &context.key) {
            (None, None, None) => Ok(None),
            (Some(root), Some(certificate), Some(key)) => {
                let (certificate, key) = (encoded(certificate)?, encoded(key)?);
                let proof = Proof::Certificate { certificate, key };
                Ok(Some(Self { root: Some(encoded(root)?), proof }))
            }
            (_, _, _) => bail!("give all of --root, --certificate and --key, or none"),
        }
    }
}

fn encoded(path: &Path) -> anyhow::Result<String> {
    let bytes = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
    Ok(BASE64.encode(bytes))
}

fn kubeconfig(context: &Context, project: &str, material: Option<&Material>) -> Value {
    let name = if context.name.is_empty() { NAME } else { &context.name };
    let mut cluster = json!({ "server": context.server });
    if context.server.starts_with("http://") {
        // Some clients refuse a plain port unless they are told that nothing is to be verified; there is nothing.
        cluster["insecure-skip-tls-verify"] = json!(true);
    }
    let mut user = json!({});
    if let Some(material) = material {
        if let Some(root) = &material.root {
            cluster["certificate-authority-data"] = json!(root);
        }
        match &material.proof {
            Proof::Certificate { certificate, key } => {
                user["client-certificate-data"] = json!(certificate);
                user["client-key-data"] = json!(key);
            }
            Proof::Token(token) => user["token"] = json!(token),
        }
    }
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{ "name": name, "cluster": cluster }],
        "users": [{ "name": name, "user": user }],
        "contexts": [{
            "name": name,
            "context": { "cluster": name, "user": name, "namespace": project },
        }],
        "current-context": name,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_server_needs_no_user() {
        let context = Context { server: "http://127.0.0.1:7443".into(), ..Context::default() };
        let config = kubeconfig(&context, "demo", None);
        let expect = json!({ "server": context.server, "insecure-skip-tls-verify": true });
        assert_eq!(config["clusters"][0]["cluster"], expect);
        assert_eq!(config["contexts"][0]["context"]["namespace"], "demo");
        assert_eq!(config["current-context"], "orrery");
    }

    #[test]
    fn certificates_are_carried_along() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = |name: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, name).expect("written");
            Some(path)
        };
        let context = Context {
            name: "prod".into(),
            server: "https://example.test:7443".into(),
            root: file("ca"),
            certificate: file("crt"),
            key: file("key"),
            ..Context::default()
        };
        let material = Material::read(&context).expect("readable");
        let config = kubeconfig(&context, "default", material.as_ref());
        let cluster = &config["clusters"][0];
        assert_eq!(cluster["cluster"]["certificate-authority-data"], "Y2E=");
        assert_eq!(cluster["cluster"]["insecure-skip-tls-verify"], Value::Null);
        assert_eq!(config["users"][0]["user"]["client-key-data"], "a2V5");
        assert_eq!(
            (&cluster["name"], &config["current-context"]),
            (&json!("prod"), &json!("prod"))
        );
    }

    #[test]
    fn half_a_set_of_files_is_refused() {
        let context = Context { root: Some("/ca.pem".into()), ..Context::default() };
        assert!(Material::read(&context).is_err());
    }
}
