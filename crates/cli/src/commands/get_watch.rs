//! `orrery get --watch`: on a terminal a table that changes in place, else line after line.
use super::get::Query;
use crate::exit::Interrupted;
use crate::output::listing::{Listing, Shape};
use crate::output::notice::Notice;
use crate::output::screen::Screen;
use crate::output::table::Table;
use crate::output::{print, style};
use crate::signals::{StopSignals, WindowChanges};
use crate::watching::{Known, News, Patience, Told, Watches};
use anyhow::Context as _;
use futures::FutureExt as _;
use orrery_proto::hub::v1::KindInfo;
use serde_json::Value;

/// Changes that are drawn at once when they come at once.
const BURST_MAX: usize = 1000;

pub async fn run(query: &Query, kinds: &[KindInfo], name: &str) -> anyhow::Result<()> {
    let mut signals = StopSignals::listen()?;
    let mut watches = Watches::default();
    for kind in kinds {
        watches.add(&query.session, kind, &query.scope, name, Patience::Later)?;
    }
    let listing = Listing::new(query.format.clone(), query.look, query.headers, Shape::Single);
    let following = async {
        if print::is_terminal() && listing.is_table() {
            in_place(query, kinds, watches).await
        } else {
            appending(kinds, watches, listing).await
        }
    };
    tokio::select! {
        () = signals.next() => Err(Interrupted.into()),
        outcome = following => outcome,
    }
}

/// Line after line. What is there at the start comes kind by kind, so that columns line up.
async fn appending(
    kinds: &[KindInfo],
    mut watches: Watches,
    mut listing: Listing,
) -> anyhow::Result<()> {
    listing.going_on();
    let mut known: Vec<Known> = kinds.iter().map(|_| Known::default()).collect();
    loop {
        let (number, change) = watches.next().await;
        let (kind, known) = (&kinds[number], &mut known[number]);
        let columns = !known.is_complete() && listing.is_table();
        let news = known.take(change?).into_iter().map(shown);
        if columns {
            listing.page(kind, news.collect())?;
            continue;
        }
        for object in news {
            listing.change(kind, object)?;
        }
    }
}

fn shown(news: News) -> Value {
    match news {
        News::Is(object) => object,
        News::Gone(mut object) => {
            mark_deleted(&mut object);
            object
        }
    }
}

/// The last row of an object says that it is gone, not what it was.
fn mark_deleted(object: &mut Value) {
    for place in ["/status/state", "/status/phase"] {
        if let Some(state) = object.pointer_mut(place) {
            *state = "Deleted".into();
        }
    }
}

/// Everything of one kind, in the order of a list.
struct Rows {
    table: Table,
    known: Known,
}

impl Rows {
    fn lines(&mut self, headers: bool) -> Vec<String> {
        let (now, style) = (print::now(), style::stdout());
        let rows: Vec<Vec<String>> = self.known.objects().map(|o| self.table.row(o, now)).collect();
        if rows.is_empty() {
            return Vec::new();
        }
        self.table.leave_room();
        self.table.fit(&rows);
        let header = headers.then(|| self.table.line(&self.table.header(), style, true));
        let rows = rows.iter().map(|row| self.table.line(row, style, false));
        header.into_iter().chain(rows).collect()
    }
}

async fn in_place(query: &Query, kinds: &[KindInfo], mut watches: Watches) -> anyhow::Result<()> {
    let mut resizes = WindowChanges::listen()?;
    let mut screen = Screen::default();
    let new = |kind| Rows { table: Table::new(kind, query.look), known: Known::default() };
    let mut all: Vec<Rows> = kinds.iter().map(new).collect();
    let mut notice = Notice::default();
    let mut take = |all: &mut [Rows], (number, told): (usize, anyhow::Result<Told>)| {
        match told? {
            Told::Change(change) => _ = all[number].known.take(change),
            lost_or_found => notice.take(&lost_or_found),
        }
        anyhow::Ok(notice.line())
    };
    let mut line = None;
    loop {
        tokio::select! {
            () = resizes.next() => {}
            told = watches.next_told() => {
                line = take(&mut all, told)?;
                for _ in 0..BURST_MAX {
                    let Some(told) = watches.next_told().now_or_never() else { break };
                    line = take(&mut all, told)?;
                }
            }
        }
        if all.iter().all(|rows| rows.known.is_complete()) {
            let lines = draw(query, kinds, &mut all).into_iter().chain(line.clone());
            screen.show(lines.collect()).context("write to the terminal")?;
        }
    }
}

fn draw(query: &Query, kinds: &[KindInfo], all: &mut [Rows]) -> Vec<String> {
    let mut lines = Vec::new();
    for rows in all {
        let more = rows.lines(query.headers);
        if !lines.is_empty() && !more.is_empty() {
            lines.push(String::new());
        }
        lines.extend(more);
    }
    if lines.is_empty() {
        lines.push(query.nothing(kinds));
    }
    lines
}
