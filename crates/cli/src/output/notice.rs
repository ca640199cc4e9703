//! What became of the connection, where lines change in place.
use super::{print, style};
use crate::watching::Told;
use std::io::IsTerminal as _;

/// A line below the others for as long as the connection is lost. Where standard error is somewhere
/// else than the terminal, it is told there.
#[derive(Default)]
pub struct Notice {
    lost: Option<String>,
}

impl Notice {
    pub fn take(&mut self, told: &Told) {
        let notice = told.notice();
        if !std::io::stderr().is_terminal() {
            notice.iter().for_each(|notice| print::note(notice));
            return;
        }
        self.lost = match told {
            Told::Lost(_) => notice,
            Told::Found | Told::Change(_) => None,
        };
    }

    pub fn line(&self) -> Option<String> {
        self.lost.as_ref().map(|lost| style::stdout().bad(lost))
    }
}
