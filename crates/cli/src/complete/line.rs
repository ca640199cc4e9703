//! The line that is being completed, read with indulgence: it is not finished.
use crate::session::Session;
use clap::{Arg, Command};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What stands on the line before the word that is completed.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Line {
    /// The words behind the command that are no options.
    pub words: Vec<String>,
    /// Values by the name of their option; empty for those that take none.
    options: BTreeMap<String, String>,
}

impl Line {
    /// The line that the shell handed over: `orrery -- orrery get workloads ...`.
    pub fn typed(command: &Command) -> Self {
        let all = std::env::args().skip_while(|word| word != "--").skip(2);
        let mut before: Vec<String> = all.collect();
        // The last word is the one that is being typed.
        before.pop();
        Self::read(command, &before)
    }

    fn read(command: &Command, words: &[String]) -> Self {
        let mut line = Self::default();
        let mut inside = command;
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            if !word.starts_with('-') || word == "-" {
                match inside.find_subcommand(word) {
                    Some(next) if line.words.is_empty() => inside = next,
                    Some(_) | None => line.words.push(word.clone()),
                }
                continue;
            }
            let (name, attached) = match word.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (word.as_str(), None),
            };
            let Some(option) = find(inside, name).or_else(|| find(command, name)) else { continue };
            let takes = option.get_num_args().is_none_or(|count| count.takes_values());
            let value = match (takes, attached) {
                (_, Some(value)) => value,
                (true, None) => rest.next().cloned().unwrap_or_default(),
                (false, None) => String::new(),
            };
            line.options.insert(option.get_id().to_string(), value);
        }
        line.fill_from_environment(inside);
        line
    }

    fn fill_from_environment(&mut self, command: &Command) {
        for option in command.get_arguments() {
            let value = option.get_env().and_then(|name| std::env::var(name).ok());
            if let Some(value) = value {
                self.options.entry(option.get_id().to_string()).or_insert(value);
            }
        }
    }

    pub fn option(&self, name: &str) -> Option<String> {
        self.options.get(name).filter(|value| !value.is_empty()).cloned()
    }

    pub fn path(&self, name: &str) -> Option<PathBuf> {
        self.option(name).map(PathBuf::from)
    }

    /// The project that names are looked for in; empty for all.
    pub fn project(&self, session: &Session) -> String {
        let everywhere = self.options.contains_key("all_projects");
        session.project(self.option("project").as_deref(), everywhere)
    }
}

fn find<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|option| match name.strip_prefix("--") {
        Some(long) => option.get_long() == Some(long),
        None => option.get_short().is_some_and(|short| name == format!("-{short}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Arguments;
    use clap::CommandFactory as _;

    #[track_caller]
    fn check(typed: &str, words: &[&str], project: Option<&str>) {
        let typed: Vec<String> = typed.split_whitespace().map(str::to_owned).collect();
        let mut command = Arguments::command();
        command.build();
        let line = Line::read(&command, &typed);
        assert_eq!(line.words, words, "{typed:?}");
        assert_eq!(line.option("project").as_deref(), project, "{typed:?}");
    }

    #[test]
    fn words_and_options_are_told_apart() {
        check("get workloads", &["workloads"], None);
        check("get -p demo workloads", &["workloads"], Some("demo"));
        check("get --project=demo workloads a", &["workloads", "a"], Some("demo"));
        check("--context x get -A workloads", &["workloads"], None);
        check("get -w workloads -p", &["workloads"], None);
        check("label workload hello a=b", &["workload", "hello", "a=b"], None);
        check("", &[], None);
    }
}
