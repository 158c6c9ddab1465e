//! Listing and pushing, shown while it happens: bars on a terminal, lines otherwise, all of it on
//! standard error.

use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use reverser_git::PushProgress;

use super::text;
use crate::operator::Progress;

/// How often bars are drawn.
const TICK: Duration = Duration::from_millis(80);

/// What is shown.
pub struct Shown {
    progress: Arc<Progress>,
    style: Style,
}

enum Style {
    Nothing,
    Lines { listed: bool },
    Bars(Box<Bars>),
}

struct Bars {
    all: MultiProgress,
    listing: ProgressBar,
    pushing: ProgressBar,
}

impl Shown {
    /// Bars if standard error is a terminal, lines otherwise.
    #[must_use]
    pub fn new(progress: Arc<Progress>, quiet: bool) -> Self {
        let style = if quiet {
            Style::Nothing
        } else if io::stderr().is_terminal() {
            Style::Bars(Box::new(Bars::new()))
        } else {
            Style::Lines { listed: false }
        };
        Self { progress, style }
    }

    /// Waits until the next look.
    pub async fn tick() {
        tokio::time::sleep(TICK).await;
    }

    /// Shows how far it is.
    pub fn look(&mut self) {
        let (lists, ended) = (self.progress.lists(), self.progress.ended_lists());
        let objects = self.progress.listed_objects();
        let listed = lists > 0 && ended >= lists;
        let said = || {
            let of = text::count(lists, "list");
            format!("{} in {of}", text::count(objects, "object"))
        };
        match &mut self.style {
            Style::Nothing | Style::Lines { listed: true } => {}
            Style::Lines { listed: was } => {
                if listed {
                    *was = true;
                    eprintln!("listed {}", said());
                }
            }
            Style::Bars(bars) => {
                bars.show_lists(lists, ended, &said());
                if listed {
                    bars.show_push(self.progress.pushed().as_ref());
                }
            }
        }
    }

    /// A line for people, beside the bars.
    pub fn say(&mut self, line: &str) {
        match &self.style {
            Style::Nothing => {}
            Style::Lines { .. } => eprintln!("{line}"),
            Style::Bars(bars) => {
                // Only a terminal that is gone cannot be written to.
                let _ = bars.all.println(line);
            }
        }
    }

    /// Nothing more is to be shown.
    pub fn end(&mut self) {
        if let Style::Bars(bars) = &self.style {
            bars.listing.finish_and_clear();
            bars.pushing.finish_and_clear();
        }
    }
}

impl Bars {
    fn new() -> Self {
        let all = MultiProgress::new();
        let listing = all.add(ProgressBar::new(0));
        listing.set_style(style("listing  {bar:30} {pos}/{len}  {msg}"));
        let pushing = all.add(ProgressBar::no_length());
        pushing.set_style(style("pushing  {spinner} {msg}"));
        Self {
            all,
            listing,
            pushing,
        }
    }

    fn show_lists(&self, lists: usize, ended: usize, said: &str) {
        self.listing.set_length(lists as u64);
        self.listing.set_position(ended.min(lists) as u64);
        self.listing.set_message(said.to_owned());
    }

    /// Before git says how much there is to push, nobody knows.
    fn show_push(&self, pushed: Option<&PushProgress>) {
        let Some(PushProgress { sent, of, size }) = pushed else {
            self.pushing.set_message("what differs from the branch");
            return self.pushing.tick();
        };
        if self.pushing.length().is_none() {
            self.pushing
                .set_style(style("pushing  {bar:30} {percent}%  {msg}"));
        }
        self.pushing.set_length(*of);
        self.pushing.set_position(*sent);
        let size = size.as_deref().unwrap_or("0 bytes");
        self.pushing
            .set_message(format!("{size} in {sent}/{of} objects of Git"));
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .expect("the template is a constant that the tests show")
        .progress_chars("━╸─")
}
