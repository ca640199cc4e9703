//! Tables that can be pasted into Markdown.
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(header: &[&str]) -> Self {
        Self { rows: vec![header.iter().map(|cell| (*cell).to_owned()).collect()] }
    }

    pub fn row(&mut self, cells: &[String]) {
        self.rows.push(cells.to_vec());
    }

    pub fn print(&self) {
        for (place, row) in self.rows.iter().enumerate() {
            println!("| {} |", row.join(" | "));
            if place == 0 {
                println!("|{}", "---|".repeat(row.len()));
            }
        }
        println!();
    }
}
