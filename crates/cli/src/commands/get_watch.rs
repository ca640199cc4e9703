//! `orrery get --watch`: on a terminal a table that changes in place, else line after line.
use super::get::Query;
use crate::exit::Interrupted;
use crate::output::listing::{Listing, Shape};
use crate::output::screen::Screen;
use crate::output::table::Table;
use crate::output::{print, style};
use crate::signals::{StopSignals, WindowChanges};
use crate::watching::{Change, Watches};
use anyhow::Context as _;
use futures::FutureExt as _;
use orrery_proto::hub::v1::KindInfo;
use serde_json::Value;
use std::collections::BTreeMap;

/// Changes that are drawn at once when they come at once.
const BURST_MAX: usize = 1000;

pub async fn run(query: &Query, kinds: &[KindInfo], name: &str) -> anyhow::Result<()> {
    let mut signals = StopSignals::listen()?;
    let mut watches = Watches::default();
    for kind in kinds {
        watches.add(&query.session, kind, &query.scope, name).await?;
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
    let mut initial: Vec<Option<Vec<Value>>> = vec![Some(Vec::new()); kinds.len()];
    loop {
        let (number, change) = watches.next().await;
        let kind = &kinds[number];
        match (change?, initial[number].as_mut()) {
            (Change::Is(object), Some(initial)) => initial.push(object),
            (Change::Complete, Some(_)) => {
                let objects = initial[number].take().unwrap_or_default();
                listing.page(kind, objects)?;
            }
            (Change::Is(object), None) => listing.change(kind, object)?,
            (Change::Gone(mut object), _) => {
                mark_deleted(&mut object);
                listing.change(kind, object)?;
            }
            (Change::Complete, None) => {}
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
    objects: BTreeMap<(String, String), Value>,
    complete: bool,
}

impl Rows {
    fn take(&mut self, change: Change) {
        match change {
            Change::Is(object) => {
                self.objects.insert(key(&object), object);
            }
            Change::Gone(object) => {
                self.objects.remove(&key(&object));
            }
            Change::Complete => self.complete = true,
        }
    }

    fn lines(&mut self, headers: bool) -> Vec<String> {
        let (now, style) = (print::now(), style::stdout());
        let rows: Vec<Vec<String>> =
            self.objects.values().map(|o| self.table.row(o, now)).collect();
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

fn key(object: &Value) -> (String, String) {
    let text = |key: &str| object["metadata"][key].as_str().unwrap_or_default().to_owned();
    (text("project"), text("name"))
}

async fn in_place(query: &Query, kinds: &[KindInfo], mut watches: Watches) -> anyhow::Result<()> {
    let mut resizes = WindowChanges::listen()?;
    let mut screen = Screen::default();
    let new = |kind| Rows {
        table: Table::new(kind, query.look),
        objects: BTreeMap::new(),
        complete: false,
    };
    let mut all: Vec<Rows> = kinds.iter().map(new).collect();
    loop {
        tokio::select! {
            () = resizes.next() => {}
            (number, change) = watches.next() => {
                all[number].take(change?);
                for _ in 0..BURST_MAX {
                    let Some((number, change)) = watches.next().now_or_never() else { break };
                    all[number].take(change?);
                }
            }
        }
        if all.iter().all(|rows| rows.complete) {
            screen.show(draw(query, kinds, &mut all)).context("write to the terminal")?;
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
