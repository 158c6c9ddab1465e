//! Colours, tables, differences and times, as a person likes to read them.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _};

use reverser_core::masking::masked;
use reverser_core::repo_path::RepoPath;
use similar::{ChangeTag, TextDiff};

/// Whether standard output is to be coloured, and with what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paint(bool);

/// What a text says by its colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// Good, or added.
    Green,
    /// Bad, or removed.
    Red,
    /// Worth a look.
    Yellow,
    /// Beside the point.
    Dim,
    /// A heading.
    Bold,
}

impl Paint {
    /// As the terminal and `NO_COLOR` have it.
    #[must_use]
    pub fn for_stdout() -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self(wanted && io::stdout().is_terminal())
    }

    /// Never.
    #[must_use]
    pub const fn none() -> Self {
        Self(false)
    }

    /// A text in a colour.
    #[must_use]
    pub fn paint(self, colour: Colour, text: &str) -> String {
        let code = match colour {
            Colour::Green => "32",
            Colour::Red => "31",
            Colour::Yellow => "33",
            Colour::Dim => "2",
            Colour::Bold => "1",
        };
        if self.0 && !text.is_empty() {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    /// What turns one text into another, with three lines around each change.
    #[must_use]
    pub fn diff(self, old: (&str, &str), new: (&str, &str)) -> String {
        let (old_name, old) = old;
        let (new_name, new) = new;
        let mut text = self.paint(Colour::Bold, &format!("--- {old_name}"));
        text.push('\n');
        text.push_str(&self.paint(Colour::Bold, &format!("+++ {new_name}")));
        text.push('\n');
        let difference = TextDiff::from_lines(old, new);
        for hunk in difference.unified_diff().context_radius(3).iter_hunks() {
            let _infallible = writeln!(
                text,
                "{}",
                self.paint(Colour::Dim, &hunk.header().to_string())
            );
            for change in hunk.iter_changes() {
                let (sign, colour) = match change.tag() {
                    ChangeTag::Delete => ("-", Some(Colour::Red)),
                    ChangeTag::Insert => ("+", Some(Colour::Green)),
                    ChangeTag::Equal => (" ", None),
                };
                let value = change.value();
                let line = format!("{sign}{}", value.strip_suffix('\n').unwrap_or(value));
                text.push_str(&match colour {
                    Some(colour) => self.paint(colour, &line),
                    None => line,
                });
                text.push('\n');
            }
        }
        text
    }

    /// The same for two forms of one object; of a Secret no values are shown.
    #[must_use]
    pub fn object_diff(self, path: &RepoPath, old: (&str, &str), new: (&str, &str)) -> String {
        if !is_secret(path) {
            return self.diff(old, new);
        }
        let (before, after) = masked(old.1, new.1);
        self.diff((old.0, &before), (new.0, &after))
    }

    /// A patch of `git`, in the same colours.
    #[must_use]
    pub fn patch(self, patch: &str) -> String {
        let mut text = String::new();
        for line in patch.lines() {
            let colour = match line.as_bytes() {
                [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => Some(Colour::Bold),
                [b'+', ..] => Some(Colour::Green),
                [b'-', ..] => Some(Colour::Red),
                [b'@', ..] => Some(Colour::Dim),
                // Which blobs differ is nobody's question.
                _ if line.starts_with("diff --git") || line.starts_with("index ") => continue,
                _ => None,
            };
            text.push_str(
                &colour.map_or_else(|| line.to_owned(), |colour| self.paint(colour, line)),
            );
            text.push('\n');
        }
        text
    }
}

fn is_secret(path: &RepoPath) -> bool {
    RepoPath::parse(path.as_str()).is_ok_and(|identity| {
        let key = identity.type_key;
        key.group().is_empty() && key.resource() == "secrets"
    })
}

/// Columns that are as wide as what stands in them. The last one is as long as it likes.
#[must_use]
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or_default();
    let mut widths = vec![0; columns];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(visible(cell));
        }
    }
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (at, cell) in row.iter().enumerate() {
            line.push_str(cell);
            if at + 1 < row.len() {
                line.push_str(&" ".repeat(widths[at] - visible(cell) + 2));
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// How many characters of a text are seen: colours are not.
fn visible(text: &str) -> usize {
    let mut seen = 0;
    let mut in_colour = false;
    for character in text.chars() {
        match character {
            '\u{1b}' => in_colour = true,
            'm' if in_colour => in_colour = false,
            _ if in_colour => {}
            _ => seen += 1,
        }
    }
    seen
}

/// `12,345`
#[must_use]
pub fn number(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `1 object`, `2 objects`
#[must_use]
pub fn count(how_many: usize, what: &str) -> String {
    let end = if how_many == 1 { "" } else { "s" };
    format!("{} {what}{end}", number(how_many))
}

/// `2026-11-15 23:01:02` in UTC.
#[must_use]
pub fn time(second: i64) -> String {
    jiff::Timestamp::from_second(second).map_or_else(
        |_| "?".to_owned(),
        |time| time.strftime("%Y-%m-%d %H:%M:%S").to_string(),
    )
}

/// `90s`, `5m`, `3h`, `2d`: as kubectl says how old something is.
#[must_use]
pub fn age(seconds: i64) -> String {
    match seconds.max(0) {
        seconds @ 0..120 => format!("{seconds}s"),
        seconds @ 120..7_200 => format!("{}m", seconds / 60),
        seconds @ 7_200..172_800 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_whatever_their_colour() {
        let red = Paint(true).paint(Colour::Red, "bad");
        let rows = [
            vec!["NAME".to_owned(), "STATE".to_owned(), "WHY".to_owned()],
            vec!["a-long-name".to_owned(), red.clone(), "because".to_owned()],
        ];
        let expected = format!("NAME         STATE  WHY\na-long-name  {red}    because\n");
        assert_eq!(table(&rows), expected);
    }

    #[test]
    fn numbers_and_ages_are_short() {
        assert_eq!(number(1_234_567), "1,234,567");
        assert_eq!((number(12), number(999)), ("12".into(), "999".into()));
        assert_eq!((age(5), age(600)), ("5s".into(), "10m".into()));
        assert_eq!((age(10_000), age(999_999)), ("2h".into(), "11d".into()));
        assert_eq!(
            (count(1, "object"), count(0, "object")),
            ("1 object".into(), "0 objects".into())
        );
    }

    #[test]
    fn a_difference_shows_what_changes_and_a_little_around_it() {
        let old = "a\nb\nc\nd\ne\nf\n";
        let new = "a\nb\nc\nd\nE\nf\n";
        assert_eq!(
            Paint::none().diff(("live", old), ("git", new)),
            "--- live\n+++ git\n@@ -2,5 +2,5 @@\n b\n c\n d\n-e\n+E\n f\n"
        );
    }
}
