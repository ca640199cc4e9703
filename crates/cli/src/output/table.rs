//! Tables of resources.
use super::style::Style;
use jiff::Timestamp;
use orrery_api::human_duration;
use orrery_proto::hub::v1::KindInfo;
use orrery_proto::options::v1::Column;
use serde_json::Value;

/// Says which columns there are, and turns resources into rows.
pub struct Table {
    columns: Vec<Column>,
    with_project: bool,
    widths: Vec<usize>,
}

const GAP: &str = "   ";

impl Table {
    pub fn new(kind: &KindInfo, wide: bool, with_project: bool) -> Self {
        let columns = kind.columns.iter().filter(|column| wide || !column.wide).cloned().collect();
        Self { columns, with_project: with_project && !kind.cluster_scoped, widths: Vec::new() }
    }

    pub fn header(&self) -> Vec<String> {
        let mut cells = Vec::new();
        if self.with_project {
            cells.push("PROJECT".to_owned());
        }
        cells.push("NAME".to_owned());
        cells.extend(self.columns.iter().map(|column| column.name.to_uppercase()));
        cells.push("AGE".to_owned());
        cells
    }

    pub fn row(&self, object: &Value, now: Timestamp) -> Vec<String> {
        let mut cells = Vec::new();
        if self.with_project {
            cells.push(text(lookup(object, "metadata.project")));
        }
        cells.push(text(lookup(object, "metadata.name")));
        for column in &self.columns {
            let value = lookup(object, &column.path);
            let cell = if column.r#type == "date" { age(value, now) } else { text(value) };
            cells.push(cell);
        }
        cells.push(age(lookup(object, "metadata.creationTimestamp"), now));
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
        for row in rows {
            self.widths.resize(self.widths.len().max(row.len()), 0);
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
    }

    pub fn line(&self, row: &[String], style: Style, header: bool) -> String {
        let mut line = String::new();
        for (place, cell) in row.iter().enumerate() {
            let width = self.widths.get(place).copied().unwrap_or(0);
            let last = place + 1 == row.len();
            let padded = if last { cell.clone() } else { format!("{cell:<width$}") };
            line += &if header { style.strong(&padded) } else { style.state(&padded) };
            if !last {
                line += GAP;
            }
        }
        line
    }
}

fn lookup<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(object, |value, key| value.get(key))
}

/// A value as one cell; nothing is a dash, so that columns can be told apart.
fn text(value: Option<&Value>) -> String {
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

fn age(value: Option<&Value>, now: Timestamp) -> String {
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
        let mut table = Table::new(&mk_kind(), true, true);
        let rows = vec![table.header(), table.row(&object, now)];
        table.fit(&rows);
        let style = style::Style::plain();
        assert_eq!(table.line(&rows[0], style, true), "PROJECT   NAME   STATE   NODES   AGE");
        assert_eq!(table.line(&rows[1], style, false), "shop      web    -       a,b     90s");
    }
}
