//! A repository elsewhere, and the copy of it here.
use super::address::{Address, Transport};
use super::command::Run;
use super::credentials::Opened;
use super::error::GitError;
use super::is_id;
use super::objects::Copy;
use super::ssh;
use std::path::{Path, PathBuf};

/// Bytes of a copy above which it is thrown away and fetched anew: what nobody needs any more gathers in it.
const COPY_BYTES_MAX: u64 = 1 << 30;
/// Where the copy remembers what it fetched.
const FETCHED: &str = "refs/orrery/fetched";
const BEFORE: &str = "refs/orrery/before";

/// A branch of a repository elsewhere.
pub struct Remote {
    pub address: Address,
    pub branch: String,
    pub opened: Opened,
    folder: PathBuf,
}

/// What came of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    Done,
    /// Someone else was faster.
    Overtaken,
}

impl Remote {
    pub fn new(address: Address, branch: String, opened: Opened, folder: PathBuf) -> Self {
        Self { address, branch, opened, folder }
    }

    fn run<'a>(&'a self, copy: &'a Copy, arguments: &[&str]) -> Run<'a> {
        let opened = Some((&self.opened, self.address.transport));
        Run { opened, ..Run::new(&copy.folder, arguments) }
    }

    /// The copy, and the latest commit of the branch; `None` if there is no such branch.
    pub async fn fetch(&self) -> Result<(Copy, Option<String>), GitError> {
        if COPY_BYTES_MAX < size(&self.folder) {
            Copy::forget(&self.folder)?;
        }
        let copy = Copy::open(self.folder.clone()).await?;
        match self.fetch_into(&copy).await {
            // Who was killed in the midst of it leaves locks behind, and nobody else works here.
            Err(GitError::Failed { said, .. }) if said.contains(".lock") => {
                Copy::forget(&self.folder)?;
                let copy = Copy::open(self.folder.clone()).await?;
                let commit = self.fetch_into(&copy).await?;
                Ok((copy, commit))
            }
            outcome => outcome.map(|commit| (copy, commit)),
        }
    }

    async fn fetch_into(&self, copy: &Copy) -> Result<Option<String>, GitError> {
        let wanted = format!("+refs/heads/{}:{FETCHED}", self.branch);
        let output = self.run(copy, &fetch(&self.address.url, &wanted)).output().await?;
        if !output.success {
            let absent = output.stderr.contains("couldn't find remote ref");
            return if absent { Ok(None) } else { Err(self.failed("fetch", &output.stderr)) };
        }
        let found = Run::new(&copy.folder, &["rev-parse", "--verify", FETCHED]).checked().await?;
        let found = String::from_utf8_lossy(&found).trim().to_owned();
        if is_id(&found) { Ok(Some(found)) } else { Err(GitError::Strange(found)) }
    }

    /// Brings an older commit into the copy; `false` where it cannot be had any more.
    pub async fn bring(&self, copy: &Copy, commit: &str) -> Result<bool, GitError> {
        if !is_id(commit) || copy.has(commit).await? {
            return Ok(is_id(commit));
        }
        let wanted = format!("+{commit}:{BEFORE}");
        Ok(self.run(copy, &fetch(&self.address.url, &wanted)).output().await?.success)
    }

    /// Makes a commit the latest of the branch, if it follows what is the latest there.
    pub async fn push(&self, copy: &Copy, commit: &str) -> Result<Pushed, GitError> {
        let to = format!("{commit}:refs/heads/{}", self.branch);
        let arguments = ["push", "--porcelain", "--no-verify", "--", &self.address.url, &to];
        let output = self.run(copy, &arguments).output().await?;
        if output.success {
            return Ok(Pushed::Done);
        }
        let stdout = String::from_utf8_lossy(&output.stdout);
        let overtaken =
            ["[rejected]", "(fetch first)", "(non-fast-forward)", "failed to update ref"];
        let said = format!("{stdout}\n{}", output.stderr);
        if overtaken.iter().any(|word| said.contains(word)) {
            return Ok(Pushed::Overtaken);
        }
        let lines = stdout.lines().filter(|line| line.starts_with('!')).collect::<Vec<_>>();
        Err(self.failed("push", &format!("{}\n{}", lines.join("\n"), output.stderr)))
    }

    fn failed(&self, what: &str, said: &str) -> GitError {
        let of_ssh = match self.address.transport {
            Transport::Ssh => ssh::problem(said, &self.address, self.opened.secret()),
            Transport::Https | Transport::Http | Transport::File => None,
        };
        of_ssh.unwrap_or_else(|| GitError::failed(what, said))
    }
}

fn fetch<'a>(url: &'a str, wanted: &'a str) -> [&'a str; 10] {
    [
        "fetch",
        "--quiet",
        "--depth=1",
        "--no-tags",
        "--no-recurse-submodules",
        "--no-auto-maintenance",
        "--no-write-fetch-head",
        "--",
        url,
        wanted,
    ]
}

/// Bytes of all files of a folder; what cannot be looked at counts nothing.
fn size(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let one = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(data) if data.is_dir() => size(&entry.path()),
        Ok(data) => data.len(),
        Err(_) => 0,
    };
    entries.map(one).sum()
}
