//! What is written to a terminal: colours, and lines that change in place.
use crate::harness::{Home, ORRERY, signal};
use std::io::Read as _;
use std::process::{Child, ChildStdout, Command, Stdio};

/// A command at a terminal of its own, which `script` makes.
struct Terminal {
    child: Child,
    output: ChildStdout,
    seen: String,
}

fn terminal(home: &Home, line: &str) -> Terminal {
    let mut command: Command = home.command("script");
    let line = format!("stty rows 20 cols 100; exec {ORRERY} {line}");
    command
        .args(["-q", "-e", "-c", &line, "/dev/null"])
        .env("TERM", "xterm")
        .env("SHELL", "/bin/sh");
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let output = child.stdout.take().unwrap();
    Terminal { child, output, seen: String::new() }
}

impl Terminal {
    /// Reads until this was written; what was written so far is taken away.
    fn until(&mut self, text: &str) -> String {
        let mut bytes = [0; 4096];
        while !self.seen.contains(text) {
            let length = self.output.read(&mut bytes).unwrap();
            assert_ne!(length, 0, "it ended before it wrote {text:?}: {:?}", self.seen);
            self.seen += &String::from_utf8_lossy(&bytes[..length]);
        }
        std::mem::take(&mut self.seen)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        signal(self.child.id(), rustix::process::Signal::TERM);
        // It may have ended already.
        let _ = self.child.wait();
    }
}

#[test]
fn a_watched_table_changes_in_place() {
    let home = Home::new();
    let _up = home.up();
    let mut terminal = terminal(&home, "get projects -w");
    let first = terminal.until("system");
    assert!(first.contains("\u{1b}[1mNAME"), "the header is strong: {first:?}");
    assert!(first.contains("\u{1b}[32mActive"), "states have a colour: {first:?}");
    let file = home.write(
        "p.yaml",
        "apiVersion: core.orrery.dev/v1\nkind: Project\nmetadata: {name: extra}\n",
    );
    home.orrery(&["apply", "-f", file.to_str().unwrap()]).good();
    let change = terminal.until("system");
    assert!(change.contains("extra"), "{change:?}");
    // One line up, or two when an age above has changed as well.
    let up = ["\u{1b}[1A", "\u{1b}[2A"];
    assert!(up.iter().any(|up| change.contains(up)), "the cursor goes up: {change:?}");
    assert!(!change.contains("NAME"), "the header stays as it is: {change:?}");
    assert!(!change.contains("\u{1b}[2J"), "nothing is cleared: {change:?}");
}
