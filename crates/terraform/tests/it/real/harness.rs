//! A folder with a configuration, and Terraform run in it.
use orrery_testkit::world::World;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tempfile::TempDir;
use tokio::process::Command;

/// The built provider.
const PROVIDER: &str = env!("CARGO_BIN_EXE_terraform-provider-orrery");

/// A folder of Terraform's, beside a server.
pub struct Terraform {
    pub world: World,
    /// The version of the protocol that the provider is asked for.
    pub protocol: &'static str,
    folder: TempDir,
    program: PathBuf,
}

/// What a run of Terraform ended with.
pub struct Run {
    pub code: i32,
    /// Both outputs, without colours.
    pub said: String,
}

impl Run {
    #[track_caller]
    pub fn well(self) -> String {
        assert_eq!(self.code, 0, "{}", self.said);
        self.said
    }

    /// It failed, and said all of this.
    #[track_caller]
    pub fn refused(self, words: &[&str]) -> String {
        assert_eq!(self.code, 1, "{}", self.said);
        let said = self.said.split_whitespace().collect::<Vec<_>>().join(" ");
        // Lines are broken by frames in the margin.
        let said = said.replace(" │ ", " ");
        for word in words {
            assert!(said.contains(word), "no {word:?} in:\n{}", self.said);
        }
        said
    }
}

fn terraform() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path)
        .map(|folder| folder.join("terraform"))
        .find(|file| file.exists());
    found.expect("terraform is on PATH; cargo xtask test leaves these tests out, and says so, where it is not")
}

/// What the tutorial tells to write, with the folder of the built provider in the place of `folder`.
fn overrides(folder: &str) -> String {
    let written = document()
        .split("<<END\n")
        .nth(1)
        .and_then(|rest| rest.split("END\n").next().map(str::to_owned));
    let written = written.expect("the tutorial has a configuration of the command line");
    assert!(written.contains(folder), "{written}");
    written.replace(folder, Path::new(PROVIDER).parent().unwrap().to_str().unwrap())
}

/// The tutorial.
pub fn document() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/terraform.md");
    std::fs::read_to_string(path).unwrap()
}

impl Terraform {
    pub async fn start() -> Self {
        let world = World::start().await;
        world.project("default").await;
        let folder = tempfile::tempdir().unwrap();
        let made = Self { world, protocol: "6", folder, program: terraform() };
        made.file(".terraformrc", &overrides("$PWD/target/release"));
        made
    }

    /// Writes the configuration: the provider, and these resources after it. The first line of `resources` is
    /// line 1 of `main.tf`.
    pub fn write(&self, resources: &str) {
        let provider = format!(
            "terraform {{\n  required_providers {{\n    orrery = {{ source = \"orrery/orrery\" }}\n  }}\n}}\nprovider \"orrery\" {{\n  server = \"{}\"\n}}\n",
            self.world.url
        );
        self.file("provider.tf", &provider);
        self.file("main.tf", resources);
    }

    pub fn file(&self, name: &str, text: &str) {
        std::fs::write(self.folder.path().join(name), text).unwrap();
    }

    pub async fn run(&self, arguments: &[&str]) -> Run {
        let mut command = Command::new(&self.program);
        command
            .args(arguments)
            .current_dir(self.folder.path())
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.folder.path())
            .env("ORRERY_SERVER", &self.world.url)
            .env("CHECKPOINT_DISABLE", "1")
            .env("ORRERY_TERRAFORM_PROTOCOL", self.protocol)
            .env("TF_IN_AUTOMATION", "1")
            .env("TF_CLI_ARGS", "-no-color")
            .stdin(Stdio::null())
            .kill_on_drop(true);
        let output = command.output().await.expect("terraform starts");
        let texts = [output.stdout, output.stderr]
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        Run { code: output.status.code().unwrap_or(-1), said: texts.concat() }
    }

    pub async fn apply(&self) -> Run {
        self.run(&["apply", "-auto-approve", "-input=false"]).await
    }

    /// A plan: 0 when nothing is to be done, 2 when something is.
    pub async fn plan(&self) -> Run {
        self.run(&["plan", "-input=false", "-detailed-exitcode"]).await
    }

    /// Nothing is to be done.
    pub async fn is_settled(&self) {
        let run = self.plan().await;
        assert_eq!(run.code, 0, "{}", run.said);
    }

    /// Something is to be done; what.
    pub async fn wants(&self) -> String {
        let run = self.plan().await;
        assert_eq!(run.code, 2, "{}", run.said);
        run.said
    }

    pub async fn destroy(&self) -> Run {
        self.run(&["destroy", "-auto-approve", "-input=false"]).await
    }
}
