//! What a copy of a repository holds, and what is added to it.
use super::command::Run;
use super::error::GitError;
use super::is_id;
use super::keys::Signer;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Files of one commit that are looked at.
const FILES_MAX: usize = 20_000;

/// One file of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// From the root of the repository.
    pub path: String,
    pub blob: Blob,
}

/// What stands in the place of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blob {
    File {
        id: String,
        size_bytes: u64,
    },
    /// A link or a repository of its own, which are never followed.
    Other(&'static str),
}

/// What a commit says about itself.
#[derive(Clone, Debug)]
pub struct Commit {
    /// Before it; none for the first one.
    pub parent: Option<String>,
    pub author: String,
    pub email: String,
    pub message: String,
    /// Seconds of the epoch.
    pub time: i64,
}

/// A copy of a repository. Only one at a time works on it.
#[derive(Debug)]
pub struct Copy {
    pub folder: PathBuf,
}

impl Copy {
    /// Makes the folder a repository, unless it is one.
    pub async fn open(folder: PathBuf) -> Result<Self, GitError> {
        if !folder.join("HEAD").exists() {
            std::fs::create_dir_all(&folder).map_err(GitError::Keep)?;
            let init = ["init", "--quiet", "--bare", "--template=", "--initial-branch=orrery"];
            Run::new(&folder, &init).checked().await?;
        }
        Ok(Self { folder })
    }

    fn run(&self, arguments: &[&str]) -> Run<'_> {
        Run::new(&self.folder, arguments)
    }

    /// Whether a commit is here, with its files.
    pub async fn has(&self, commit: &str) -> Result<bool, GitError> {
        if !is_id(commit) {
            return Ok(false);
        }
        let kind = format!("{commit}^{{tree}}");
        Ok(self.run(&["cat-file", "-e", &kind]).output().await?.success)
    }

    /// The files of a commit in a folder and below; `None` if there is no such folder.
    pub async fn list(&self, commit: &str, folder: &str) -> Result<Option<Vec<Listed>>, GitError> {
        let tree = match folder {
            "" => format!("{commit}^{{tree}}"),
            folder => format!("{commit}:{folder}"),
        };
        let found = self.run(&["cat-file", "-t", &tree]).output().await?;
        if !found.success || found.stdout.trim_ascii() != b"tree" {
            return Ok(None);
        }
        let listed = self.run(&["ls-tree", "-r", "-z", "-l", &tree]).checked().await?;
        let lines = listed.split(|byte| *byte == 0).filter(|line| !line.is_empty());
        let files: Vec<Listed> =
            lines.map(|line| read_line(line, folder)).collect::<Result<_, _>>()?;
        if FILES_MAX < files.len() {
            let text = format!("more than {FILES_MAX} files are in the folder: name a smaller one");
            return Err(GitError::Refused(text));
        }
        Ok(Some(files))
    }

    /// The content of files, in their order.
    pub async fn contents(&self, ids: &[String]) -> Result<Vec<Bytes>, GitError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut run = self.run(&["cat-file", "--batch"]);
        run.input = ids.iter().flat_map(|id| [id.as_bytes(), b"\n"].concat()).collect();
        let mut rest = Bytes::from(run.checked().await?);
        let mut contents = Vec::with_capacity(ids.len());
        for id in ids {
            contents.push(take_object(&mut rest, id)?);
        }
        Ok(contents)
    }

    /// A commit on top of its parent in which some files are others, or gone; signed, where there is
    /// somebody to sign it.
    pub async fn commit(
        &self,
        commit: &Commit,
        changes: &BTreeMap<String, Option<Bytes>>,
        signer: Option<&Signer>,
    ) -> Result<String, GitError> {
        let index = tempfile::Builder::new().prefix(".index-").tempdir_in(&self.folder);
        let index = index.map_err(GitError::Keep)?;
        let index = index.path().join("index").to_string_lossy().into_owned();
        let with_index = |arguments: &[&str]| {
            let mut run = self.run(arguments);
            run.environment.push(("GIT_INDEX_FILE", index.clone()));
            run
        };
        if let Some(parent) = &commit.parent {
            with_index(&["read-tree", parent]).checked().await?;
        }
        let mut lines = Vec::new();
        for (path, content) in changes {
            let entry = match content {
                Some(content) => format!("100644 {}\t", self.write(content).await?),
                None => format!("0 {}\t", "0".repeat(40)),
            };
            lines.extend([entry.as_bytes(), path.as_bytes(), b"\0"].concat());
        }
        let mut update = with_index(&["update-index", "-z", "--index-info"]);
        update.input = lines;
        update.checked().await?;
        let tree = id(with_index(&["write-tree"]).checked().await?)?;
        self.commit_tree(&tree, commit, signer).await
    }

    async fn commit_tree(
        &self,
        tree: &str,
        commit: &Commit,
        signer: Option<&Signer>,
    ) -> Result<String, GitError> {
        let mut arguments = vec!["commit-tree", tree];
        arguments.extend(signer.map(|_| "-S"));
        if let Some(parent) = &commit.parent {
            arguments.extend(["-p", parent]);
        }
        let mut run = self.run(&arguments);
        run.settings = signer.map(Signer::settings).unwrap_or_default();
        let time = format!("{} +0000", commit.time);
        run.environment = vec![
            ("GIT_AUTHOR_NAME", commit.author.clone()),
            ("GIT_AUTHOR_EMAIL", commit.email.clone()),
            ("GIT_AUTHOR_DATE", time.clone()),
            ("GIT_COMMITTER_NAME", commit.author.clone()),
            ("GIT_COMMITTER_EMAIL", commit.email.clone()),
            ("GIT_COMMITTER_DATE", time),
        ];
        run.input = commit.message.clone().into_bytes();
        id(run.checked().await?)
    }

    async fn write(&self, content: &Bytes) -> Result<String, GitError> {
        let mut run = self.run(&["hash-object", "-w", "--stdin", "--no-filters"]);
        run.input = content.to_vec();
        id(run.checked().await?)
    }

    /// Throws everything away.
    pub fn forget(folder: &Path) -> Result<(), GitError> {
        match std::fs::remove_dir_all(folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(GitError::Keep(error))
            }
            Ok(()) | Err(_) => Ok(()),
        }
    }
}

fn id(printed: Vec<u8>) -> Result<String, GitError> {
    let text = String::from_utf8_lossy(&printed).trim().to_owned();
    if is_id(&text) { Ok(text) } else { Err(GitError::Strange(text.chars().take(80).collect())) }
}

/// `100644 blob ID    SIZE<tab>PATH`
fn read_line(line: &[u8], folder: &str) -> Result<Listed, GitError> {
    let strange = || GitError::Strange(String::from_utf8_lossy(line).chars().take(80).collect());
    let tab = line.iter().position(|byte| *byte == b'\t').ok_or_else(strange)?;
    let head = std::str::from_utf8(&line[..tab]).map_err(|_| strange())?;
    let words: Vec<&str> = head.split_ascii_whitespace().collect();
    let [mode, _, id, size] = words[..] else { return Err(strange()) };
    let name = String::from_utf8_lossy(&line[tab + 1..]);
    let path = if folder.is_empty() { name.into_owned() } else { format!("{folder}/{name}") };
    let blob = match mode {
        "120000" => Blob::Other("a link"),
        "160000" => Blob::Other("a repository of its own"),
        _ => Blob::File { id: id.to_owned(), size_bytes: size.parse().map_err(|_| strange())? },
    };
    Ok(Listed { path, blob })
}

/// `ID blob SIZE<newline>CONTENT<newline>`
fn take_object(rest: &mut Bytes, id: &str) -> Result<Bytes, GitError> {
    let strange = || GitError::Strange(format!("the file {id} is not there"));
    let line = rest.iter().position(|byte| *byte == b'\n').ok_or_else(strange)?;
    let head = rest.split_to(line + 1);
    let head = std::str::from_utf8(&head).map_err(|_| strange())?;
    let size = head.trim().strip_prefix(id).and_then(|head| head.strip_prefix(" blob "));
    let size: usize = size.and_then(|size| size.parse().ok()).ok_or_else(strange)?;
    if rest.len() <= size {
        return Err(strange());
    }
    let content = rest.split_to(size);
    drop(rest.split_to(1));
    Ok(content)
}
