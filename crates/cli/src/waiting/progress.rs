//! How the waiting goes, for the person who waits.
use super::judge::Verdict;
use crate::output::notice::Notice;
use crate::output::screen::Screen;
use crate::output::{print, style};
use crate::watching::Told;
use anyhow::Context as _;

/// What is told where lines cannot be changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Every change.
    Changes,
    /// Only that something is done.
    Results,
}

/// Tells of verdicts: on a terminal one line per resource that changes in place, else one line per
/// change.
pub struct Progress {
    titles: Vec<String>,
    /// What was last said of each.
    said: Vec<String>,
    style: Style,
    screen: Option<Screen>,
    notice: Notice,
}

impl Progress {
    pub fn new(titles: Vec<String>, style: Style) -> Self {
        let screen = print::is_terminal().then(Screen::default);
        let said = vec![String::new(); titles.len()];
        Self { said, titles, style, screen, notice: Notice::default() }
    }

    /// The verdict on one of them is another one.
    pub fn changed(&mut self, place: usize, verdicts: &[Verdict]) -> anyhow::Result<()> {
        if self.screen.is_some() {
            return self.redraw(verdicts);
        }
        let text = words(&verdicts[place]);
        if self.said[place] == text || (self.style == Style::Results && !verdicts[place].is_done())
        {
            return Ok(());
        }
        print::line(&format!("{} {text}", self.titles[place]))?;
        self.said[place] = text;
        Ok(())
    }

    /// The connection is lost, or there is one again.
    pub fn notice(&mut self, told: &Told, verdicts: &[Verdict]) -> anyhow::Result<()> {
        if self.screen.is_none() {
            told.notice().iter().for_each(|notice| print::note(notice));
            return Ok(());
        }
        self.notice.take(told);
        self.redraw(verdicts)
    }

    /// Tells what is waited for, where nothing else tells it.
    pub fn remind(&self, open: &[String]) {
        if self.screen.is_none() && self.style == Style::Results {
            print::note(&reminder(open));
        }
    }

    /// Shows everything; nothing is written when nothing differs.
    pub fn redraw(&mut self, verdicts: &[Verdict]) -> anyhow::Result<()> {
        let Some(screen) = &mut self.screen else { return Ok(()) };
        let width = self.titles.iter().map(|title| title.chars().count()).max().unwrap_or(0);
        let pairs = self.titles.iter().zip(verdicts);
        let lines = pairs.map(|(title, verdict)| format!("{title:<width$}   {}", words(verdict)));
        let lines = lines.chain(self.notice.line());
        screen.show(lines.collect()).context("write to the terminal")
    }
}

/// How many are named; there may be thousands.
const NAMED_MAX: usize = 5;

fn reminder(open: &[String]) -> String {
    let named = open.iter().take(NAMED_MAX).map(String::as_str).collect::<Vec<_>>().join(", ");
    match open.len().saturating_sub(NAMED_MAX) {
        0 => format!("still waiting for {named}"),
        more => format!("still waiting for {named} and {more} more"),
    }
}

fn words(verdict: &Verdict) -> String {
    let style = style::stdout();
    match verdict {
        Verdict::Done(word) => style.good(word),
        Verdict::Open(why) if why.is_empty() => style.faint("waiting"),
        Verdict::Open(why) => format!("{}{why}", style.busy("waiting: ")),
        Verdict::Hopeless(why) => style.bad(why),
    }
}

#[cfg(test)]
mod tests {
    use super::reminder;

    #[test]
    fn a_reminder_names_a_few() {
        let open = |count: usize| (0..count).map(|n| format!("w{n}")).collect::<Vec<_>>();
        assert_eq!(reminder(&open(2)), "still waiting for w0, w1");
        assert_eq!(reminder(&open(7)), "still waiting for w0, w1, w2, w3, w4 and 2 more");
    }
}
