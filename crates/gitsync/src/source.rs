//! The files of a commit as the resources that they declare.
use crate::content::{self, Files};
use crate::git::{Blob, Copy, GitError, Listed};
use crate::plan::{Declared, Key};
use bytes::Bytes;
use orrery_api::{DecodeOptions, Manifest, Object, Position, Scheme, named_artifacts};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of all files of resources together.
const MANIFEST_BYTES_MAX: u64 = 48 << 20;

/// Bytes of all files beside them together, which are in memory during a look.
const BESIDE_BYTES_MAX: u64 = 128 << 20;
/// Bytes of one file of resources, as their reader takes it.
const FILE_BYTES_MAX: u64 = 16 << 20;

/// Something that could not be done, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub file: String,
    pub resource: String,
    pub message: String,
}

impl Problem {
    pub fn of_file(file: &str, message: impl ToString) -> Self {
        let (file, resource) = (file.to_owned(), String::new());
        Self { file, resource, message: message.to_string() }
    }
}

/// One resource of a file.
#[derive(Clone, Debug)]
pub struct Document {
    pub file: String,
    pub at: Position,
    /// Knows where each field stands.
    pub manifest: Manifest,
    /// Whether nothing else stands in the document.
    pub alone: bool,
    /// As it is written, in the version of the hub and without defaults.
    pub object: Object,
    /// As it is compared.
    pub value: Value,
    /// The files beside it, by the path that it names them by.
    pub files: BTreeMap<String, Beside>,
}

/// A file beside a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beside {
    /// From the root of the repository.
    pub file: String,
    pub content: Bytes,
}

/// What git says.
#[derive(Clone, Debug, Default)]
pub struct Source {
    pub documents: BTreeMap<Key, Document>,
    /// The text of files of resources, from the root of the repository.
    pub texts: BTreeMap<String, Bytes>,
    /// Every file, also those that declare nothing.
    pub listed: BTreeSet<String>,
    pub problems: Vec<Problem>,
}

impl Source {
    pub fn declared(&self) -> BTreeMap<Key, Declared> {
        let one = |(key, document): (&Key, &Document)| {
            let (file, digest) = (document.file.clone(), document.digest());
            (key.clone(), Declared { file, digest })
        };
        self.documents.iter().map(one).collect()
    }
}

impl Document {
    pub fn digest(&self) -> String {
        content::digest(&self.value, &self.file_digests())
    }

    pub fn file_digests(&self) -> Files {
        let one = |(path, beside): (&String, &Beside)| {
            (path.clone(), content::file_digest(&beside.content))
        };
        self.files.iter().map(one).collect()
    }
}

/// What the files of a commit declare for a project.
pub struct Reader<'a> {
    pub scheme: &'a Scheme,
    pub project: &'a str,
    pub folder: &'a str,
}

impl Reader<'_> {
    /// Reads a commit; `None` if it has no such folder.
    pub async fn read(&self, copy: &Copy, commit: &str) -> Result<Option<Source>, GitError> {
        let Some(listed) = copy.list(commit, self.folder).await? else { return Ok(None) };
        let mut source = Source::default();
        let wanted = self.wanted(&listed, &mut source)?;
        let ids: Vec<String> = wanted.iter().map(|(_, id)| id.clone()).collect();
        let contents = copy.contents(&ids).await?;
        for ((path, _), content) in wanted.into_iter().zip(contents) {
            source.texts.insert(path, content);
        }
        let mut found = Found::default();
        for (file, bytes) in &source.texts {
            self.read_file(file, bytes, &mut found);
        }
        self.add_files(copy, &listed, &mut found).await?;
        found.finish(&mut source);
        source.listed = listed.into_iter().map(|listed| listed.path).collect();
        Ok(Some(source))
    }

    /// The files that may declare resources.
    fn wanted(
        &self,
        listed: &[Listed],
        source: &mut Source,
    ) -> Result<Vec<(String, String)>, GitError> {
        let (mut wanted, mut total) = (Vec::new(), 0);
        for Listed { path, blob } in listed.iter().filter(|it| self.is_manifest(&it.path)) {
            match blob {
                Blob::Other(what) => {
                    let message = format!("is {what}, which is not followed");
                    source.problems.push(Problem::of_file(path, message));
                }
                Blob::File { size_bytes, .. } if FILE_BYTES_MAX < *size_bytes => {
                    let message = format!("is too large: at most {FILE_BYTES_MAX} bytes");
                    source.problems.push(Problem::of_file(path, message));
                }
                Blob::File { id, size_bytes } => {
                    total += size_bytes;
                    wanted.push((path.clone(), id.clone()));
                }
            }
        }
        if MANIFEST_BYTES_MAX < total {
            return Err(GitError::TooLarge { bytes_max: MANIFEST_BYTES_MAX });
        }
        Ok(wanted)
    }

    /// Files of resources have one of three endings. What is hidden belongs to other tools.
    fn is_manifest(&self, path: &str) -> bool {
        let below = if self.folder.is_empty() { path } else { &path[self.folder.len() + 1..] };
        let hidden = below.split('/').any(|part| part.starts_with('.'));
        !hidden && [".yaml", ".yml", ".json"].iter().any(|ending| path.ends_with(ending))
    }

    fn read_file(&self, file: &str, bytes: &Bytes, found: &mut Found) {
        let read = match self.scheme.read_manifests(file, bytes) {
            Ok(read) => read,
            Err(errors) => {
                for error in errors.0 {
                    let problem = Problem::of_file(&error.source_name, &error);
                    found.problems.push(problem);
                }
                return;
            }
        };
        for (manifest, complete) in &read {
            let alone = !is_listed(bytes, manifest);
            match self.document(file, manifest, complete, alone) {
                Ok((key, document)) => found.documents.push((key, document)),
                Err(problem) => found.problems.push(problem),
            }
        }
    }

    fn document(
        &self,
        file: &str,
        manifest: &Manifest,
        complete: &Object,
        alone: bool,
    ) -> Result<(Key, Document), Problem> {
        let resource = format!("{} {}", complete.kind().kind(), complete.name());
        let refuse = |path: &str, message: &str| Problem {
            file: file.to_owned(),
            resource: resource.clone(),
            message: manifest.error(path, message).to_string(),
        };
        self.check(complete).map_err(|(path, why)| refuse(path, &why))?;
        let options = DecodeOptions::default();
        let raw = Object::from_json_value(complete.kind(), &manifest.value, &options);
        let raw = raw.map_err(|error| refuse("", &error.to_string()))?.object;
        let to_hub = |object: &Object| {
            self.scheme.to_hub(object).map_err(|error| refuse("", &error.to_string()))
        };
        let (mut object, mut complete) = (to_hub(&raw)?, to_hub(complete)?);
        complete.default();
        object.take_lineage();
        object.set_resource_version("");
        object.set_project(if object.kind().cluster_scoped() { "" } else { self.project });
        let key =
            Key { kind: object.kind().full_name().to_owned(), name: object.name().to_owned() };
        let value = content::canonical(&complete);
        let at = manifest.locate("");
        let (file, files, manifest) = (file.to_owned(), BTreeMap::new(), manifest.clone());
        Ok((key, Document { file, at, manifest, alone, object, value, files }))
    }

    /// A sync speaks for its own project.
    fn check(&self, object: &Object) -> Result<(), (&'static str, String)> {
        let kind = object.kind();
        if kind.server_owned() {
            let text = format!("{} are written by the server only", kind.plural());
            return Err(("kind", text));
        }
        if kind.cluster_scoped() && self.project != SYSTEM {
            let text = format!(
                "a {} belongs to no project, and only a sync in the project {SYSTEM:?} speaks of such",
                kind.kind()
            );
            return Err(("kind", text));
        }
        let said = object.project();
        if !said.is_empty() && said != self.project {
            let text = format!("is {said:?}, and this sync is for the project {:?}", self.project);
            return Err(("metadata.project", text));
        }
        if object.name().is_empty() {
            return Err(("metadata.name", "is required".to_owned()));
        }
        Ok(())
    }

    /// Reads the files that resources name, where they are beside them.
    async fn add_files(
        &self,
        copy: &Copy,
        listed: &[Listed],
        found: &mut Found,
    ) -> Result<(), GitError> {
        let blobs: BTreeMap<&str, &Blob> =
            listed.iter().map(|it| (it.path.as_str(), &it.blob)).collect();
        let mut total = 0;
        for (_, document) in &mut found.documents {
            let beside = document.file.rsplit_once('/').map_or("", |(folder, _)| folder);
            for path in named_artifacts(document.object.kind(), &document.value) {
                if path.parse::<orrery_hub::artifacts::ArtifactPath>().is_err() {
                    continue;
                }
                let file = joined(beside, &path);
                let Some(Blob::File { id, size_bytes }) = blobs.get(file.as_str()) else {
                    continue;
                };
                if (orrery_hub::artifacts::FILE_BYTES_MAX as u64) < *size_bytes {
                    found.problems.push(Problem::of_file(&file, "is too large for an artifact"));
                    continue;
                }
                total += size_bytes;
                if BESIDE_BYTES_MAX < total {
                    return Err(GitError::TooLarge { bytes_max: BESIDE_BYTES_MAX });
                }
                let content = copy.contents(std::slice::from_ref(id)).await?;
                let content = content.into_iter().next().unwrap_or_default();
                found.claimed.insert(file.clone());
                document.files.insert(path, Beside { file, content });
            }
        }
        Ok(())
    }
}

/// Whether a resource is an item of a list, and not a document of its own: then it does not begin at the left.
fn is_listed(bytes: &[u8], manifest: &Manifest) -> bool {
    let Position { line, column } = manifest.locate("");
    let text = String::from_utf8_lossy(bytes);
    let first = text.lines().nth(line.max(1) - 1).unwrap_or_default();
    column != 1 && !first.starts_with("---") || first.starts_with("- ")
}

/// The project of what has none.
pub const SYSTEM: &str = "system";

/// A path below a folder; the root is "".
pub fn joined(folder: &str, path: &str) -> String {
    if folder.is_empty() { path.to_owned() } else { format!("{folder}/{path}") }
}

/// What was read, before it is put in order.
#[derive(Default)]
struct Found {
    documents: Vec<(Key, Document)>,
    problems: Vec<Problem>,
    /// Files that are artifacts of resources, and so declare none themselves.
    claimed: BTreeSet<String>,
}

impl Found {
    fn finish(self, source: &mut Source) {
        let Self { documents, problems, claimed } = self;
        let free = |file: &String| !claimed.contains(file);
        source.problems.extend(problems.into_iter().filter(|problem| free(&problem.file)));
        let mut places: BTreeMap<Key, Vec<Document>> = BTreeMap::new();
        for (key, document) in documents.into_iter().filter(|(_, it)| free(&it.file)) {
            places.entry(key).or_default().push(document);
        }
        for (key, mut all) in places {
            if all.len() == 1 {
                source.documents.extend(all.pop().map(|only| (key, only)));
                continue;
            }
            let files: Vec<String> =
                all.iter().map(|it| format!("{}:{}", it.file, it.at.line)).collect();
            let message = format!("is declared more than once: {}", files.join(", "));
            let resource = format!("{} {}", all[0].object.kind().kind(), key.name);
            source.problems.push(Problem { file: all[0].file.clone(), resource, message });
        }
        source.texts.retain(|file, _| !claimed.contains(file));
    }
}
