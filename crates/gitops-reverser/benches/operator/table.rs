use std::time::Duration;

/// Rows, shown as they come.
pub(crate) struct Table;

impl Table {
    pub(crate) fn start() -> Self {
        println!("| what | measured | floor of the same run | target |\n|---|---|---|---|");
        Self
    }

    #[expect(clippy::unused_self, reason = "rows belong below a head")]
    pub(crate) fn row(&mut self, what: &str, measured: &str, floor: &str, target: &str) {
        println!("| {what} | {measured} | {floor} | {target} |");
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
