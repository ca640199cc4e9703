//! Resources on standard output, in the form that was asked for.
use super::style::{self, Style};
use super::table::Table;
use crate::args::Format;
use anyhow::Context as _;
use jiff::Timestamp;
use orrery_proto::hub::v1::{KindInfo, Resource, resource::Body};
use serde_json::Value;
use std::io::Write as _;

/// Prints the resources of one kind.
pub struct Printer {
    format: Format,
    kind: KindInfo,
    table: Table,
    style: Style,
    printed: usize,
}

impl Printer {
    pub fn new(format: Format, kind: KindInfo, with_project: bool) -> Self {
        let table = Table::new(&kind, format == Format::Wide, with_project);
        Self { format, kind, table, style: style::stdout(), printed: 0 }
    }

    /// More will follow, one at a time.
    pub fn going_on(&mut self) {
        self.table.leave_room();
    }

    /// One page of a list, or everything at once.
    pub fn many(&mut self, objects: &[Value]) -> anyhow::Result<()> {
        match self.format {
            Format::Table | Format::Wide => self.rows(objects)?,
            Format::Yaml | Format::Json | Format::Name => {
                for object in objects {
                    self.one(object)?;
                }
            }
        }
        Ok(())
    }

    /// The whole of a list as one document.
    pub fn list(&mut self, objects: Vec<Value>, resource_version: &str) -> anyhow::Result<()> {
        let list = serde_json::json!({
            "apiVersion": format!("{}/{}", self.kind.group, self.kind.version),
            "kind": format!("{}List", self.kind.kind),
            "metadata": {"resourceVersion": resource_version},
            "items": objects,
        });
        self.one(&list)
    }

    /// One resource, or one more.
    pub fn one(&mut self, object: &Value) -> anyhow::Result<()> {
        match self.format {
            Format::Table | Format::Wide => return self.rows(std::slice::from_ref(object)),
            Format::Json => line(&serde_json::to_string_pretty(object)?)?,
            Format::Yaml => {
                if 0 < self.printed {
                    line("---")?;
                }
                line(serde_saphyr::to_string(object)?.trim_end())?;
            }
            Format::Name => {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                line(&format!("{}/{name}", self.kind.singular))?;
            }
        }
        self.printed += 1;
        Ok(())
    }

    fn rows(&mut self, objects: &[Value]) -> anyhow::Result<()> {
        let now = now();
        let rows: Vec<Vec<String>> = objects.iter().map(|o| self.table.row(o, now)).collect();
        if self.printed == 0 {
            let header = self.table.header();
            self.table.fit(std::slice::from_ref(&header));
            self.table.fit(&rows);
            line(&self.table.line(&header, self.style, true))?;
        } else {
            self.table.fit(&rows);
        }
        for row in &rows {
            line(&self.table.line(row, self.style, false))?;
        }
        self.printed += rows.len().max(1);
        Ok(())
    }
}

/// One line on standard output. A reader that is gone is an error, not a panic.
pub fn line(text: &str) -> anyhow::Result<()> {
    let mut stdout = std::io::stdout().lock();
    writeln!(stdout, "{text}").context("write to standard output")
}

/// One line for the person, which does not belong to the output.
pub fn note(text: &str) {
    // Nothing is left to tell somebody who does not listen.
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// The JSON of a resource that was asked for as JSON.
pub fn json(resource: Option<&Resource>) -> anyhow::Result<Value> {
    match resource.and_then(|resource| resource.body.as_ref()) {
        Some(Body::Json(text)) => serde_json::from_str(text).context("read the server's answer"),
        Some(Body::Protobuf(_)) | None => anyhow::bail!("the server did not answer in JSON"),
    }
}

/// Ages are told in this machine's time.
#[allow(clippy::disallowed_methods)] // A person's terminal is the one place that needs it.
fn now() -> Timestamp {
    Timestamp::now()
}
