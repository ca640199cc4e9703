//! The file that a person edits, and the editor.
use crate::targets::Resource;
use anyhow::{Context as _, bail};
use orrery_api::{parse_manifests, value_to_yaml};
use serde_json::Value;
use std::io::Write as _;
use std::path::PathBuf;
use tempfile::NamedTempFile;

/// The editor of people who chose none.
const EDITOR_DEFAULT: &str = "vi";

/// What a person made of it.
pub enum Edited {
    Unchanged,
    /// Saved without a change after an error was shown; this is the error.
    GivenUp(String),
    Unreadable(String),
    Value(Value),
}

/// The text that is edited.
pub struct Buffer {
    title: String,
    file: NamedTempFile,
    /// The text as it was handed to the editor.
    text: String,
    problem: Option<Problem>,
}

/// What stands at the top of the text when the editor opens again.
#[derive(Clone, Debug)]
pub enum Problem {
    /// The text must change before it can be stored.
    Error(String),
    /// The text can be stored once the person has taken the question away.
    Question(String),
}

impl Buffer {
    pub fn new(resource: &Resource, object: &Value) -> anyhow::Result<Self> {
        let mut builder = tempfile::Builder::new();
        let prefix = format!("orrery-{}-{}-", resource.kind.singular, resource.name.name);
        let file = builder.prefix(&prefix).suffix(".yaml").tempfile();
        let file = file.context("make a file to edit")?;
        let title = resource.title();
        let text = format!("{}{}", introduction(&title, None), value_to_yaml(object));
        Ok(Self { title, file, text, problem: None })
    }

    /// Opens the editor and reads what it leaves.
    pub async fn open(&mut self) -> anyhow::Result<Edited> {
        std::fs::write(self.file.path(), &self.text).context("write the file to edit")?;
        self.run_editor().await?;
        let path = self.file.path();
        let after = std::fs::read_to_string(path).context("read the edited file")?;
        let same = body(&after) == body(&self.text);
        // Taking a question away says yes to it.
        let agreed = comments(&after) < comments(&self.text);
        match self.problem.take() {
            Some(Problem::Error(text)) if same => return Ok(Edited::GivenUp(text)),
            Some(Problem::Question(text)) if same && !agreed => return Ok(Edited::GivenUp(text)),
            None if same => return Ok(Edited::Unchanged),
            Some(_) | None => {}
        }
        if body(&after).trim().is_empty() {
            return Ok(Edited::Unchanged);
        }
        self.text = after;
        Ok(match parse_manifests(&self.title, self.text.as_bytes()) {
            Ok(mut manifests) if manifests.len() == 1 => Edited::Value(manifests.remove(0).value),
            Ok(_) => Edited::Unreadable("there must be one resource here".into()),
            Err(error) => Edited::Unreadable(error.to_string()),
        })
    }

    async fn run_editor(&self) -> anyhow::Result<()> {
        let chosen = ["VISUAL", "EDITOR"].into_iter().filter_map(std::env::var_os);
        let editor = chosen.into_iter().find(|editor| !editor.is_empty());
        let editor = editor.unwrap_or_else(|| EDITOR_DEFAULT.into());
        // A shell reads it, because an editor may have arguments: code --wait.
        let mut command = tokio::process::Command::new("sh");
        command.arg("-c").arg("$ORRERY_EDITOR_COMMAND \"$1\"").arg("sh").arg(self.file.path());
        command.env("ORRERY_EDITOR_COMMAND", &editor);
        let status = command.status().await.context("start the editor")?;
        if !status.success() {
            bail!("the editor {} ended with {status}; nothing was changed", editor.display());
        }
        Ok(())
    }

    /// Puts a resource in place of the text.
    pub fn rewrite(&mut self, object: &Value) {
        self.text = format!("{}{}", introduction(&self.title, None), value_to_yaml(object));
    }

    /// The next time the editor opens, this stands at the top.
    pub fn complain(&mut self, problem: Problem) {
        let text = match &problem {
            Problem::Error(text) => text.clone(),
            Problem::Question(text) => format!("{text}\nremove these lines and save to go on"),
        };
        self.text = format!("{}{}", introduction(&self.title, Some(&text)), body(&self.text));
        self.problem = Some(problem);
    }

    /// Leaves the text where the person finds it.
    pub fn keep(&mut self) -> anyhow::Result<PathBuf> {
        let mut file = std::fs::File::create(self.file.path()).context("keep the edited file")?;
        file.write_all(self.text.as_bytes()).context("keep the edited file")?;
        self.file.disable_cleanup(true);
        Ok(self.file.path().to_owned())
    }
}

fn introduction(title: &str, problem: Option<&str>) -> String {
    let mut lines =
        vec![format!("Edit {title}, save and close. Without a change nothing happens.")];
    if let Some(problem) = problem {
        lines.push(String::new());
        lines.push("It was not stored:".to_owned());
        lines.extend(problem.lines().map(|line| format!("  {line}")));
    }
    lines.iter().map(|line| format!("{}\n", format!("# {line}").trim_end())).collect()
}

/// How many comments stand at the top.
fn comments(text: &str) -> usize {
    text.lines().take_while(|line| line.starts_with('#')).count()
}

/// The text without the comments at its top.
fn body(text: &str) -> &str {
    let mut rest = text;
    while rest.starts_with('#') {
        rest = rest.split_once('\n').map_or("", |(_, behind)| behind);
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_introduction_is_no_part_of_the_text() {
        let text = format!("{}a: 1\n# mine\n", introduction("project/x", Some("one\ntwo")));
        assert!(text.contains("#   one\n#   two\n"), "{text}");
        assert_eq!(body(&text), "a: 1\n# mine\n");
        assert_eq!(body("# only"), "");
        assert_eq!(comments(&text), 5);
    }
}
