//! Files with resources: read whole, checked whole, before anything is sent.
use anyhow::{Context as _, bail};
use orrery_api::{
    DecodeError, DecodeOptions, Manifest, ReadError, Scheme, Violation, parse_manifests,
};
use orrery_proto::hub::v1::{DiscoverResponse, Violation as WireViolation};
use serde_json::Value;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// Larger files are refused before they are read whole.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Reads all files. Nothing is sent when one of them cannot be read.
pub fn read(files: &[PathBuf], project: Option<&str>) -> anyhow::Result<Vec<Manifest>> {
    let mut all = Vec::new();
    for file in files {
        let (source, bytes) = read_bytes(file)?;
        let manifests = parse_manifests(&source, &bytes)?;
        if manifests.is_empty() {
            bail!("there is no resource in {source}");
        }
        all.extend(manifests);
    }
    if let Some(project) = project {
        for manifest in &mut all {
            fill_project(&mut manifest.value, project);
        }
    }
    Ok(all)
}

/// Checks everything that can be checked without the server, so that a mistake in the last resource
/// is found before the first is stored.
pub fn check(manifests: &[Manifest], server: &DiscoverResponse) -> anyhow::Result<()> {
    if server.server_version != orrery_client::VERSION {
        // Another version knows other kinds; it will say itself what is wrong.
        return Ok(());
    }
    let scheme = Scheme::builder()
        .group_suffix(&server.group_suffix)
        .descriptors(orrery_proto::FILE_DESCRIPTOR_SET);
    let scheme = orrery_server::rules(scheme).build()?;
    let problems: Vec<String> =
        manifests.iter().flat_map(|manifest| problems(&scheme, manifest)).collect();
    if problems.is_empty() {
        return Ok(());
    }
    bail!("nothing was applied, because there is something to mend:\n{}", problems.join("\n"))
}

fn problems(scheme: &Scheme, manifest: &Manifest) -> Vec<String> {
    match violations(scheme, manifest) {
        Ok(violations) => violations.iter().map(|each| manifest.describe(each)).collect(),
        Err(other) => vec![format!("{}: {other}", manifest.at(""))],
    }
}

/// What is wrong with its fields: those that are unknown or of another type, and those that break a
/// rule, in one go where the first leave enough to look at.
fn violations(scheme: &Scheme, manifest: &Manifest) -> Result<Vec<Violation>, ReadError> {
    match scheme.read_value(&manifest.value, &DecodeOptions::default()) {
        Ok(decoded) => Ok(decoded.object.validate(None)),
        Err(ReadError::Decode(DecodeError::Invalid(mut found))) => {
            if let Ok(rest) = scheme.read_value(&manifest.value, &DecodeOptions::lenient()) {
                found.extend(rest.object.validate(None));
            }
            Ok(found)
        }
        Err(other) => Err(other),
    }
}

/// What the server found wrong, with the place in the file.
pub fn located(manifest: &Manifest, violations: &[WireViolation]) -> String {
    let lines: Vec<String> = violations
        .iter()
        .map(|violation| {
            let field = &violation.field;
            format!("{}: {field}: {}", manifest.at(field), violation.message)
        })
        .collect();
    lines.join("\n")
}

/// `workload/hello`, as a person would name it.
pub fn title(manifest: &Manifest) -> String {
    let text = |path: &[&str]| {
        let value = path.iter().try_fold(&manifest.value, |value, key| value.get(key));
        value.and_then(Value::as_str).unwrap_or("?").to_owned()
    };
    format!("{}/{}", text(&["kind"]).to_lowercase(), text(&["metadata", "name"]))
}

fn read_bytes(file: &Path) -> anyhow::Result<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    if file == Path::new("-") {
        std::io::stdin()
            .take(FILE_BYTES_MAX)
            .read_to_end(&mut bytes)
            .context("read standard input")?;
        return Ok(("standard input".into(), bytes));
    }
    let name = file.display().to_string();
    let opened = std::fs::File::open(file).with_context(|| format!("read {name}"))?;
    opened.take(FILE_BYTES_MAX).read_to_end(&mut bytes).with_context(|| format!("read {name}"))?;
    Ok((name, bytes))
}

/// Fills in the project where the resource names none.
fn fill_project(value: &mut Value, project: &str) {
    let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    if !metadata.contains_key("project") && !metadata.contains_key("namespace") {
        metadata.insert("project".into(), project.into());
    }
}
