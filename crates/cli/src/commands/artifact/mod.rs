//! `orrery artifact`: the files of resources.
mod beside;
mod progress;
mod transfer;

pub use beside::Beside;

use crate::args::{ArtifactArguments, ArtifactCommand, ArtifactOwner, Global};
use crate::output::table::plain_lines;
use crate::output::{print, style};
use crate::scheme;
use crate::session::Session;
use crate::targets::{self, Resource};
use anyhow::bail;
use orrery_client::files::{File, Files, Owner};

/// The files of one resource.
struct Shelf {
    files: Files,
    owner: Owner,
    resource: Resource,
}

pub async fn run(global: &Global, arguments: ArtifactArguments) -> anyhow::Result<()> {
    match arguments.command {
        ArtifactCommand::List(list) => {
            Shelf::open(global, &list.owner).await?.list(!list.no_headers).await
        }
        ArtifactCommand::Get(get) => {
            let shelf = Shelf::open(global, &get.owner).await?;
            transfer::get(&shelf, &get.path, get.file).await
        }
        ArtifactCommand::Put(put) => {
            let path = transfer::path_for(&put.file, put.path)?;
            let shelf = Shelf::open(global, &put.owner).await?;
            transfer::put(&shelf, &put.file, &path).await
        }
        ArtifactCommand::Delete(delete) => {
            Shelf::open(global, &delete.owner).await?.delete(&delete.paths).await
        }
    }
}

impl Shelf {
    async fn open(global: &Global, owner: &ArtifactOwner) -> anyhow::Result<Self> {
        let session = Session::open(global, &owner.connection).await?;
        let (kind, name) = targets::slash(&session.known, &owner.owner)?;
        let shared = scheme::shared(&session.known)?;
        let definition = shared.as_ref().and_then(|scheme| scheme::definition(scheme, &kind));
        if definition.is_some_and(|definition| !definition.has_artifacts()) {
            bail!("{} have no files", kind.plural);
        }
        let project = session.project(owner.project.as_deref(), false);
        let files = Files::connect(&session.target.endpoint()?).await?;
        Ok(Self::of(files, Resource::new(&kind, &project, &name)))
    }

    fn of(files: Files, resource: Resource) -> Self {
        let kind = &resource.kind;
        let owner = Owner {
            group: kind.group.clone(),
            version: kind.version.clone(),
            plural: kind.plural.clone(),
            project: resource.name.project.clone(),
            name: resource.name.name.clone(),
        };
        Self { files, owner, resource }
    }

    /// `workload/hello etc/app.conf`
    fn title(&self, path: &str) -> String {
        format!("{} {path}", self.resource.title())
    }

    async fn list(&self, headers: bool) -> anyhow::Result<()> {
        let found = self.files.list(&self.owner).await?;
        if found.is_empty() {
            print::note(&format!("{} has no files", self.resource.title()));
            return Ok(());
        }
        let header = ["PATH", "SIZE", "SHA-256"].map(str::to_owned).to_vec();
        let row = |file: &File| {
            vec![file.path.clone(), progress::size(file.size_bytes), file.digest.clone()]
        };
        let rows: Vec<_> = std::iter::once(header).chain(found.iter().map(row)).collect();
        let lines = plain_lines(&rows, style::stdout());
        print::lines(&lines[usize::from(!headers)..])
    }

    /// What cannot be deleted is no reason to leave out the rest.
    async fn delete(&self, paths: &[String]) -> anyhow::Result<()> {
        let mut failures = Vec::new();
        for path in paths {
            match self.files.delete(&self.owner, path).await {
                Ok(()) => {
                    let word = style::stdout().good("deleted");
                    print::line(&format!("{} {word}", self.title(path)))?;
                }
                Err(orrery_client::Error::Api(error)) => failures.push(error.to_string()),
                Err(error) => return Err(error.into()),
            }
        }
        if failures.is_empty() { Ok(()) } else { bail!("{}", failures.join("\n")) }
    }
}
