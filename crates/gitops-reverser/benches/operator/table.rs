use std::time::Duration;

/// Rows, told as they come, and shown together at the end.
pub(crate) struct Table {
    title: String,
    rows: Vec<[String; 4]>,
}

const HEAD: [&str; 4] = ["what", "measured", "floor of the same run", "target"];

impl Table {
    pub(crate) fn new(title: String) -> Self {
        eprintln!("{title}");
        Self {
            title,
            rows: Vec::new(),
        }
    }

    pub(crate) fn row(&mut self, what: &str, measured: &str, floor: &str, target: &str) {
        let beside = [floor, target].join("; ");
        self.note(&format!(
            "{what}: {measured} ({})",
            beside.trim_matches([';', ' '])
        ));
        self.rows
            .push([what, measured, floor, target].map(str::to_owned));
    }

    /// Something beside the rows.
    #[expect(clippy::unused_self, reason = "what is told belongs to a table")]
    pub(crate) fn note(&self, line: &str) {
        eprintln!("  {line}");
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        let mut widths = HEAD.map(str::len);
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let line = |cells: [&str; 4]| {
            let cells = cells.iter().zip(widths);
            let cells: Vec<String> = cells
                .map(|(cell, width)| format!("{cell:width$}"))
                .collect();
            format!("| {} |", cells.join(" | "))
        };
        println!("\n{}\n\n{}", self.title, line(HEAD));
        println!("|{}|", widths.map(|width| "-".repeat(width + 2)).join("|"));
        for row in &self.rows {
            println!("{}", line(row.each_ref().map(String::as_str)));
        }
    }
}

pub(crate) fn seconds(time: Duration) -> String {
    format!("{:.2} s", time.as_secs_f64())
}

/// The value below which so many of a hundred lie; the values are sorted.
pub(crate) fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let index = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted.get(index).copied().unwrap_or_default()
}

pub(crate) fn ratio(time: Duration, floor: Duration, most: f64) -> String {
    let ratio = time.as_secs_f64() / floor.as_secs_f64();
    format!(
        "{ratio:.2} × floor, at most {most} ×: {}",
        word(ratio <= most)
    )
}

pub(crate) fn at_most(time: Duration, most: f64) -> String {
    format!("at most {most} s: {}", word(time.as_secs_f64() <= most))
}

pub(crate) fn at_least(value: usize, least: usize) -> String {
    format!("at least {least}: {}", word(value >= least))
}

fn word(met: bool) -> &'static str {
    if met { "met" } else { "MISSED" }
}
