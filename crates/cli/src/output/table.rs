//! Tables of resources.
use super::style::Style;
use jiff::Timestamp;
use orrery_api::human_duration;
use orrery_proto::hub::v1::KindInfo;
use orrery_proto::options::v1::Column;
use serde_json::Value;

/// What a table shows beside the columns of its kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct Look {
    pub wide: bool,
    pub with_project: bool,
    pub show_labels: bool,
    /// Names say their kind too: `workload/hello`.
    pub with_kind: bool,
}

/// Says which columns there are, and turns resources into rows.
pub struct Table {
    columns: Vec<Column>,
    look: Look,
    singular: String,
    widths: Vec<usize>,
}

const GAP: &str = "   ";

impl Table {
    pub fn new(kind: &KindInfo, look: Look) -> Self {
        let shown = kind.columns.iter().filter(|column| look.wide || !column.wide);
        let look = Look { with_project: look.with_project && !kind.cluster_scoped, ..look };
        let singular = kind.singular.clone();
        Self { columns: shown.cloned().collect(), look, singular, widths: Vec::new() }
    }

    pub fn header(&self) -> Vec<String> {
        let mut cells = Vec::new();
        if self.look.with_project {
            cells.push("PROJECT".to_owned());
        }
        cells.push("NAME".to_owned());
        cells.extend(self.columns.iter().map(|column| column.name.to_uppercase()));
        cells.push("AGE".to_owned());
        if self.look.show_labels {
            cells.push("LABELS".to_owned());
        }
        cells
    }

    pub fn row(&self, object: &Value, now: Timestamp) -> Vec<String> {
        let mut cells = Vec::new();
        if self.look.with_project {
            cells.push(text(lookup(object, "metadata.project")));
        }
        let name = text(lookup(object, "metadata.name"));
        cells.push(if self.look.with_kind { format!("{}/{name}", self.singular) } else { name });
        for column in &self.columns {
            let value = lookup(object, &column.path);
            let cell = if column.r#type == "date" { age(value, now) } else { text(value) };
            cells.push(cell);
        }
        cells.push(age(lookup(object, "metadata.creationTimestamp"), now));
        if self.look.show_labels {
            cells.push(labels(lookup(object, "metadata.labels")));
        }
        cells
    }

    /// Leaves room for the words that states change to, so that a table that goes on stays straight.
    pub fn leave_room(&mut self) {
        let mut room = self.header();
        for cell in &mut room {
            if matches!(cell.as_str(), "STATE" | "PHASE") {
                "NotScheduled".clone_into(cell);
            }
        }
        self.fit(&[room]);
    }

    /// Makes room for these rows; lines that follow keep the same columns.
    pub fn fit(&mut self, rows: &[Vec<String>]) {
        fit(&mut self.widths, rows);
    }

    pub fn line(&self, row: &[String], style: Style, header: bool) -> String {
        line(&self.widths, row, style, header)
    }
}

/// Rows that are no resources, as lines; the first row names the columns.
pub fn plain_lines(rows: &[Vec<String>], style: Style) -> Vec<String> {
    let mut widths = Vec::new();
    fit(&mut widths, rows);
    rows.iter().enumerate().map(|(at, row)| line(&widths, row, style, at == 0)).collect()
}

fn fit(widths: &mut Vec<usize>, rows: &[Vec<String>]) {
    for row in rows {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
}

fn line(widths: &[usize], row: &[String], style: Style, header: bool) -> String {
    let mut line = String::new();
    for (place, cell) in row.iter().enumerate() {
        let width = widths.get(place).copied().unwrap_or(0);
        let last = place + 1 == row.len();
        let padded = if last { cell.clone() } else { format!("{cell:<width$}") };
        line += &if header { style.strong(&padded) } else { style.state(&padded) };
        if !last {
            line += GAP;
        }
    }
    line
}

/// `app=web,tier=front`, or `<none>`.
pub fn labels(value: Option<&Value>) -> String {
    let pairs = value.and_then(Value::as_object).into_iter().flatten();
    let pairs: Vec<String> =
        pairs.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    if pairs.is_empty() { "<none>".to_owned() } else { pairs.join(",") }
}

pub fn lookup<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(object, |value, key| value.get(key))
}

/// A value as one cell; nothing is a dash, so that columns can be told apart.
pub fn text(value: Option<&Value>) -> String {
    let plain = match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.replace(['\n', '\r', '\t'], " "),
        Some(Value::Array(items)) => {
            let items: Vec<String> = items.iter().map(|item| text(Some(item))).collect();
            items.join(",")
        }
        Some(other) => other.to_string(),
    };
    if plain.is_empty() { "-".to_owned() } else { plain }
}

pub fn age(value: Option<&Value>, now: Timestamp) -> String {
    let since = value.and_then(Value::as_str).and_then(|text| text.parse::<Timestamp>().ok());
    since.map_or_else(|| "-".to_owned(), |since| human_duration(now.duration_since(since)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::style;
    use serde_json::json;

    fn mk_kind() -> KindInfo {
        let column = |name: &str, path: &str, kind: &str, wide| Column {
            name: name.into(),
            path: path.into(),
            r#type: kind.into(),
            wide,
        };
        KindInfo {
            columns: vec![
                column("State", "status.state", "string", false),
                column("Nodes", "spec.nodes", "string", true),
            ],
            ..KindInfo::default()
        }
    }

    #[test]
    fn rows_line_up_and_absent_values_are_dashes() {
        let now: Timestamp = "2026-01-01T00:01:30Z".parse().expect("a time");
        let object = json!({
            "metadata": {"name": "web", "project": "shop", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"nodes": ["a", "b"]},
        });
        let look = Look { wide: true, with_project: true, ..Look::default() };
        let mut table = Table::new(&mk_kind(), look);
        let rows = vec![table.header(), table.row(&object, now)];
        table.fit(&rows);
        let style = style::Style::plain();
        assert_eq!(table.line(&rows[0], style, true), "PROJECT   NAME   STATE   NODES   AGE");
        assert_eq!(table.line(&rows[1], style, false), "shop      web    -       a,b     90s");
    }

    #[test]
    fn names_and_labels_are_shown_as_asked_for() {
        let kind =
            KindInfo { singular: "node".into(), cluster_scoped: true, ..KindInfo::default() };
        let look = Look { show_labels: true, with_kind: true, with_project: true, wide: false };
        let table = Table::new(&kind, look);
        let object = json!({"metadata": {"name": "a", "labels": {"x": "1", "y": ""}}});
        assert_eq!(table.header(), ["NAME", "AGE", "LABELS"]);
        assert_eq!(table.row(&object, Timestamp::UNIX_EPOCH), ["node/a", "-", "x=1,y="]);
        assert_eq!(labels(None), "<none>");
    }
}
