//! What a terminal showed, as a picture for the README.

use std::fmt::Write as _;

const LINE: usize = 19;
const COLUMN: f64 = 8.43;
const MARGIN: usize = 20;
/// Where the lines begin, below the bar of the window.
const TOP: usize = 56;

/// An SVG of text with the colours that it had.
pub(super) fn svg(text: &str) -> String {
    let lines: Vec<&str> = text.trim_matches('\n').lines().collect();
    let longest = lines.iter().map(|line| plain(line).chars().count()).max();
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a picture is not that large"
    )]
    let width = (longest.unwrap_or(80) as f64 * COLUMN) as usize + 2 * MARGIN;
    let height = TOP + lines.len() * LINE + MARGIN;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"The demo in a terminal\">\n\
         <style>text{{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;fill:#d4d4d8;\
         white-space:pre}}.b{{font-weight:bold;fill:#fafafa}}.g{{fill:#4ade80}}.r{{fill:#f87171}}\
         .y{{fill:#facc15}}.d{{fill:#71717a}}</style>\n\
         <rect width=\"100%\" height=\"100%\" rx=\"10\" fill=\"#18181b\"/>\n\
         <circle cx=\"24\" cy=\"22\" r=\"6\" fill=\"#f87171\"/>\
         <circle cx=\"44\" cy=\"22\" r=\"6\" fill=\"#facc15\"/>\
         <circle cx=\"64\" cy=\"22\" r=\"6\" fill=\"#4ade80\"/>\n"
    );
    for (at, line) in lines.iter().enumerate() {
        let y = TOP + at * LINE;
        let _infallible = writeln!(svg, "<text x=\"{MARGIN}\" y=\"{y}\">{}</text>", spans(line));
    }
    svg.push_str("</svg>\n");
    svg
}

/// The text without its colours.
pub(super) fn plain(text: &str) -> String {
    pieces(text).into_iter().map(|(_, text)| text).collect()
}

fn spans(line: &str) -> String {
    let mut spans = String::new();
    for (colour, text) in pieces(line) {
        let text = text
            .replace('&', "&amp;")
            .replace('<', "&lt;")
            .replace('>', "&gt;");
        match colour {
            None => spans.push_str(&text),
            Some(class) => {
                let _infallible = write!(spans, "<tspan class=\"{class}\">{text}</tspan>");
            }
        }
    }
    spans
}

/// Texts with the class of their colour.
fn pieces(text: &str) -> Vec<(Option<&'static str>, String)> {
    let mut pieces = Vec::new();
    let mut colour = None;
    for (at, part) in text.split("\u{1b}[").enumerate() {
        let (code, text) = match part.split_once('m') {
            Some((code, text)) if at > 0 => (code, text),
            _ => ("", part),
        };
        colour = match code {
            "1" => Some("b"),
            "2" => Some("d"),
            "31" => Some("r"),
            "32" => Some("g"),
            "33" => Some("y"),
            "0" => None,
            _ => colour,
        };
        if !text.is_empty() {
            pieces.push((colour, text.to_owned()));
        }
    }
    pieces
}
