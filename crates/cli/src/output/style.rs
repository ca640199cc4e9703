//! Colour on a terminal, none when piped.
use std::io::IsTerminal as _;

/// Colours words, or leaves them as they are.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    on: bool,
}

pub fn stdout() -> Style {
    Style { on: wanted(std::io::stdout().is_terminal()) }
}

pub fn stderr() -> Style {
    Style { on: wanted(std::io::stderr().is_terminal()) }
}

/// The conventions of `NO_COLOR` and of terminals that can do nothing.
fn wanted(terminal: bool) -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    terminal && !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

impl Style {
    #[cfg(test)]
    pub fn plain() -> Self {
        Self { on: false }
    }

    pub fn is_on(self) -> bool {
        self.on
    }

    pub fn error(self, text: &str) -> String {
        self.paint("1;31", text)
    }

    pub fn good(self, text: &str) -> String {
        self.paint("32", text)
    }

    pub fn bad(self, text: &str) -> String {
        self.paint("31", text)
    }

    pub fn busy(self, text: &str) -> String {
        self.paint("33", text)
    }

    pub fn faint(self, text: &str) -> String {
        self.paint("2", text)
    }

    pub fn strong(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// The colour of a state of ours; other words stay as they are.
    pub fn state(self, text: &str) -> String {
        match text.trim_end() {
            "Running" | "Ready" | "Active" | "Succeeded" => self.good(text),
            "Failed" | "Gone" | "Unknown" => self.bad(text),
            "Pending" | "Stopping" | "Terminating" | "NotScheduled" => self.busy(text),
            _ => text.to_owned(),
        }
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.on { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}
