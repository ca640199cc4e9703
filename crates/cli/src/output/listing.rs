//! Resources on standard output, page after page, in the form that was asked for.
//!
//! Tables, names, YAML and JSON are written as the pages come, so that ten thousand resources need
//! the memory of one page. Only a template waits for the whole.
use super::print;
use super::style::{self, Style};
use super::table::{Look, Table};
use crate::args::Format;
use orrery_api::value_to_yaml;
use orrery_proto::hub::v1::KindInfo;
use serde_json::{Value, json};

/// Whether one resource was asked for, or what there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Single,
    List,
}

pub struct Listing {
    format: Format,
    look: Look,
    headers: bool,
    shape: Shape,
    style: Style,
    /// More will follow, one at a time.
    going_on: bool,
    /// The table of the kind that is being printed.
    table: Option<(String, Table)>,
    /// Resources so far.
    count: usize,
    /// Items for a template.
    gathered: Vec<Value>,
    /// `apiVersion` and `kind` of the list, and its revision.
    head: Value,
}

impl Listing {
    pub fn new(format: Format, look: Look, headers: bool, shape: Shape) -> Self {
        let look = Look { wide: matches!(format, Format::Wide), ..look };
        let head = json!({"apiVersion": "v1", "kind": "List", "metadata": {}});
        Self {
            format,
            look,
            headers,
            shape,
            style: style::stdout(),
            going_on: false,
            table: None,
            count: 0,
            gathered: Vec::new(),
            head,
        }
    }

    /// More will follow, one at a time.
    pub fn going_on(&mut self) {
        self.going_on = true;
    }

    /// A list of one kind says which, and what revision it is true at.
    pub fn of_kind(&mut self, kind: &KindInfo, resource_version: &str) {
        self.head = json!({
            "apiVersion": format!("{}/{}", kind.group, kind.version),
            "kind": format!("{}List", kind.kind),
            "metadata": {"resourceVersion": resource_version},
        });
    }

    pub fn is_table(&self) -> bool {
        matches!(self.format, Format::Table | Format::Wide)
    }

    pub fn count(&self) -> usize {
        self.count
    }

    /// Some more resources of a kind.
    pub fn page(&mut self, kind: &KindInfo, objects: Vec<Value>) -> anyhow::Result<()> {
        if objects.is_empty() {
            return Ok(());
        }
        let first = self.count == 0;
        self.count += objects.len();
        match &self.format {
            Format::Table | Format::Wide => self.rows(kind, &objects),
            Format::Name => {
                let name = |object: &Value| format!("{}/{}", kind.singular, name(object));
                print::lines(&objects.iter().map(name).collect::<Vec<_>>())
            }
            Format::JsonPath(_) => {
                self.gathered.extend(objects);
                Ok(())
            }
            Format::Json => self.json(&objects, first),
            Format::Yaml => self.yaml(&objects, first),
        }
    }

    /// One more resource, after what was there: a change.
    pub fn change(&mut self, kind: &KindInfo, object: Value) -> anyhow::Result<()> {
        match &self.format {
            Format::JsonPath(template) => print::line(&template.render(&object)),
            Format::Table | Format::Wide | Format::Name | Format::Json | Format::Yaml => {
                self.page(kind, vec![object])
            }
        }
    }

    /// What ends the output.
    pub fn finish(&mut self) -> anyhow::Result<()> {
        match (&self.format, self.shape) {
            (Format::Table | Format::Wide | Format::Name, _) => Ok(()),
            (Format::Json | Format::Yaml, Shape::Single) => Ok(()),
            (Format::Json, Shape::List) if self.count == 0 => {
                print::line(&format!("{}[]\n}}", self.json_head()))
            }
            (Format::Json, Shape::List) => print::line("\n  ]\n}"),
            (Format::Yaml, Shape::List) if self.count == 0 => {
                print::line(&format!("{}items: []", value_to_yaml(&self.head)))
            }
            (Format::Yaml, Shape::List) => Ok(()),
            (Format::JsonPath(template), shape) => {
                let items = std::mem::take(&mut self.gathered);
                let whole = match shape {
                    Shape::Single => items.into_iter().next().unwrap_or_default(),
                    Shape::List => {
                        let mut whole = self.head.clone();
                        whole["items"] = Value::Array(items);
                        whole
                    }
                };
                print::text(&template.render(&whole))
            }
        }
    }

    fn rows(&mut self, kind: &KindInfo, objects: &[Value]) -> anyhow::Result<()> {
        let id = format!("{}.{}", kind.plural, kind.group);
        let mut lines = Vec::new();
        let fresh = self.table.as_ref().is_none_or(|(known, _)| *known != id);
        if fresh {
            if self.table.is_some() {
                lines.push(String::new());
            }
            self.table = Some((id, Table::new(kind, self.look)));
        }
        let Some((_, table)) = &mut self.table else { return Ok(()) };
        let now = print::now();
        let rows: Vec<Vec<String>> = objects.iter().map(|o| table.row(o, now)).collect();
        if fresh {
            table.fit(&[table.header()]);
        }
        if fresh && self.going_on {
            table.leave_room();
        }
        table.fit(&rows);
        if fresh && self.headers {
            lines.push(table.line(&table.header(), self.style, true));
        }
        lines.extend(rows.iter().map(|row| table.line(row, self.style, false)));
        print::lines(&lines)
    }

    fn json(&self, objects: &[Value], first: bool) -> anyhow::Result<()> {
        let mut out = String::new();
        for (at, object) in objects.iter().enumerate() {
            let text = serde_json::to_string_pretty(object)?;
            match self.shape {
                Shape::Single => out += &format!("{text}\n"),
                Shape::List => {
                    let before = match first && at == 0 {
                        true => format!("{}[\n", self.json_head()),
                        false => ",\n".to_owned(),
                    };
                    out += &format!("{before}    {}", text.replace('\n', "\n    "));
                }
            }
        }
        print::text(&out)
    }

    /// Everything of a list before its items.
    fn json_head(&self) -> String {
        let head = serde_json::to_string_pretty(&self.head).unwrap_or_default();
        let open = head.trim_end().trim_end_matches('}').trim_end();
        format!("{open},\n  \"items\": ")
    }

    fn yaml(&self, objects: &[Value], first: bool) -> anyhow::Result<()> {
        let mut out = String::new();
        for (at, object) in objects.iter().enumerate() {
            let text = value_to_yaml(object);
            match (self.shape, first && at == 0) {
                (Shape::Single, true) => out += &text,
                (Shape::Single, false) => out += &format!("---\n{text}"),
                (Shape::List, start) => {
                    if start {
                        out += &format!("{}items:\n", value_to_yaml(&self.head));
                    }
                    out += &item(&text);
                }
            }
        }
        print::text(&out)
    }
}

/// A YAML document as an item of a list.
fn item(text: &str) -> String {
    let mut out = String::new();
    for (at, line) in text.lines().enumerate() {
        let before = match (at, line.is_empty()) {
            (0, _) => "- ",
            (_, true) => "",
            (_, false) => "  ",
        };
        out += &format!("{before}{line}\n");
    }
    out
}

/// The name of a resource.
pub fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_becomes_an_item() {
        let value = json!({"a": "x\n\ny\n", "b": [1, {"c": 2}]});
        let list =
            format!("items:\n{}{}", item(&value_to_yaml(&value)), item(&value_to_yaml(&value)));
        let read: Value = serde_saphyr::from_str(&list).unwrap();
        assert_eq!(read, json!({"items": [value, value]}));
    }

    #[test]
    fn the_head_of_a_list_leaves_it_open() {
        let listing = Listing::new(Format::Json, Look::default(), true, Shape::List);
        let whole = format!("{}[]\n}}", listing.json_head());
        let read: Value = serde_json::from_str(&whole).unwrap();
        assert_eq!(read["items"], json!([]));
        assert_eq!(read["kind"], "List");
    }
}
