//! Files with resources: read whole, checked whole, before anything is sent.
use crate::scheme;
use anyhow::{Context as _, bail};
use orrery_api::{
    DecodeError, DecodeOptions, Manifest, ReadError, Scheme, Violation, parse_manifests,
};
use orrery_proto::hub::v1::{DiscoverResponse, Violation as WireViolation};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// The name that stands for standard input.
const STDIN: &str = "-";
const STDIN_SOURCE: &str = "standard input";
/// The annotation that says who applied a resource, and what we write there.
const APPLIED_BY: &str = "orrery.dev/applied-by";
const APPLIED_BY_US: &str = "orrery-apply";
/// Larger files are refused, and not read to their end.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// Reads all files, and all manifests below folders. Nothing is sent when one of them cannot be
/// read. Projects come first, because the rest may live in them.
pub fn read(files: &[PathBuf], project: Option<&str>) -> anyhow::Result<Vec<Manifest>> {
    let mut all = Vec::new();
    for given in files {
        let before = all.len();
        for file in files_at(given)? {
            let (source, bytes) = read_bytes(&file)?;
            all.extend(parse_manifests(&source, &bytes)?);
        }
        if all.len() == before {
            bail!("there is no resource in {}", source_name(given));
        }
    }
    if let Some(project) = project {
        for manifest in &mut all {
            fill_project(&mut manifest.value, project);
        }
    }
    all.sort_by_key(|manifest| manifest.value["kind"] != "Project");
    Ok(all)
}

/// What can be sent side by side: projects before what may live in them, and what stands twice one
/// after the other, so that the last one stays.
pub fn waves(manifests: &[Manifest]) -> Vec<&[Manifest]> {
    let mut waves = Vec::new();
    let (mut start, mut seen) = (0, BTreeSet::new());
    for (place, manifest) in manifests.iter().enumerate() {
        let before = place.checked_sub(1).and_then(|before| manifests.get(before));
        let project_ends = before.is_some_and(|before| before.value["kind"] == "Project")
            && manifest.value["kind"] != "Project";
        if project_ends || seen.contains(&identity(manifest)) {
            waves.extend(manifests.get(start..place));
            (start, seen) = (place, BTreeSet::new());
        }
        seen.insert(identity(manifest));
    }
    waves.extend(manifests.get(start..).filter(|last| !last.is_empty()));
    waves
}

/// What a manifest is about: kind, project and name, as they are written there.
fn identity(manifest: &Manifest) -> [String; 4] {
    let (value, metadata) = (&manifest.value, &manifest.value["metadata"]);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    // The version does not matter: it is one object in all of them.
    let group = text(&value["apiVersion"]).split('/').next().unwrap_or_default().to_owned();
    let project = metadata["project"].as_str().or(metadata["namespace"].as_str());
    [group, text(&value["kind"]), project.unwrap_or_default().to_owned(), text(&metadata["name"])]
}

/// The file itself, or what a folder holds: YAML and JSON, sorted by path.
fn files_at(given: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if given == Path::new(STDIN) || !given.is_dir() {
        return Ok(vec![given.to_owned()]);
    }
    let mut found = Vec::new();
    let mut folders = vec![given.to_owned()];
    while let Some(folder) = folders.pop() {
        let failed = || format!("read the folder {}", folder.display());
        for entry in std::fs::read_dir(&folder).with_context(failed)? {
            let entry = entry.with_context(failed)?;
            let path = entry.path();
            // Links to folders are not followed: they could lead in circles.
            if entry.file_type().with_context(failed)?.is_dir() {
                folders.push(path);
            } else if is_manifest(&path) && path.is_file() {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn is_manifest(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    matches!(extension, Some("yaml" | "yml" | "json"))
}

/// Checks everything that can be checked without the server, so that a mistake in the last resource
/// is found before the first is stored. `done` is what then happens to none of them.
pub fn check(manifests: &[Manifest], server: &DiscoverResponse, done: &str) -> anyhow::Result<()> {
    // Another version knows other kinds; it will say itself what is wrong.
    let Some(scheme) = scheme::shared(server)? else { return Ok(()) };
    let problems: Vec<String> =
        manifests.iter().flat_map(|manifest| problems(&scheme, manifest)).collect();
    if problems.is_empty() {
        return Ok(());
    }
    bail!("nothing was {done}, because there is something to mend:\n{}", problems.join("\n"))
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
    let name = source_name(file);
    let failed = || format!("read {name}");
    // One byte more than is taken tells that there is too much.
    let read = match file == Path::new(STDIN) {
        true => std::io::stdin().take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes),
        false => {
            let opened = std::fs::File::open(file).with_context(failed)?;
            opened.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)
        }
    };
    if FILE_BYTES_MAX < read.with_context(failed)? as u64 {
        bail!("{name} has more than {} MiB; split it", FILE_BYTES_MAX >> 20);
    }
    Ok((name, bytes))
}

fn source_name(file: &Path) -> String {
    if file == Path::new(STDIN) {
        return STDIN_SOURCE.to_owned();
    }
    file.display().to_string()
}

/// Whether what comes from this source was read from standard input.
pub fn is_stdin(source: &str) -> bool {
    source == STDIN_SOURCE
}

/// Text from a file or from standard input.
pub fn read_text(file: &Path) -> anyhow::Result<String> {
    let (name, bytes) = read_bytes(file)?;
    String::from_utf8(bytes).with_context(|| format!("read {name} as UTF-8 text"))
}

/// Fills in the project where the resource names none.
fn fill_project(value: &mut Value, project: &str) {
    let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    if !metadata.contains_key("project") && !metadata.contains_key("namespace") {
        metadata.insert("project".into(), project.into());
    }
}

/// Marks a resource as one that `apply` wrote: only such may be pruned.
pub fn mark_applied(value: &mut Value) {
    let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let annotations = metadata.entry("annotations").or_insert_with(|| Value::Object(Map::new()));
    // Whoever wrote something else there is told by the check of the fields.
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.insert(APPLIED_BY.to_owned(), APPLIED_BY_US.into());
    }
}

/// Whether `apply` wrote this resource.
pub fn is_applied(value: &Value) -> bool {
    value["metadata"]["annotations"][APPLIED_BY] == APPLIED_BY_US
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_apply_wrote_is_known_by_its_mark() {
        let mut value = json!({"metadata": {"name": "web", "annotations": {"a": "b"}}});
        assert!(!is_applied(&value));
        mark_applied(&mut value);
        assert!(is_applied(&value));
        assert_eq!(value["metadata"]["annotations"]["a"], "b");
        let mut odd = json!({"metadata": {"annotations": 1}});
        mark_applied(&mut odd);
        assert_eq!(odd, json!({"metadata": {"annotations": 1}}));
    }

    #[test]
    fn projects_go_ahead_and_what_stands_twice_goes_one_after_the_other() {
        let mk = |kind: &str, name: &str| {
            format!("{{apiVersion: a/v1, kind: {kind}, metadata: {{name: {name}, project: p}}}}\n")
        };
        let waves_of = |all: &[(&str, &str)]| -> Vec<usize> {
            let text: Vec<String> = all.iter().map(|(kind, name)| mk(kind, name)).collect();
            let manifests = parse_manifests("test", text.join("---\n").as_bytes()).unwrap();
            waves(&manifests).iter().map(|wave| wave.len()).collect()
        };
        assert_eq!(waves_of(&[("W", "a"), ("W", "b"), ("X", "a")]), [3]);
        assert_eq!(waves_of(&[("Project", "a"), ("Project", "b"), ("W", "a")]), [2, 1]);
        assert_eq!(waves_of(&[("W", "a"), ("W", "b"), ("W", "a"), ("W", "b")]), [2, 2]);
        assert_eq!(waves_of(&[("Project", "a"), ("Project", "a")]), [1, 1]);
        assert!(waves(&[]).is_empty());
    }

    #[test]
    fn folders_are_read_in_order_and_links_to_folders_are_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir(at("b")).unwrap();
        for name in ["z.yaml", "a.yml", "b/c.json", "b/note.txt"] {
            std::fs::write(at(name), "").unwrap();
        }
        std::os::unix::fs::symlink(folder.path(), at("b/loop")).unwrap();
        let found = files_at(folder.path()).unwrap();
        assert_eq!(found, [at("a.yml"), at("b/c.json"), at("z.yaml")]);
    }
}
