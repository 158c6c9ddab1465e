use std::fs;

use super::canonical;
use super::cases::Case;
use super::stage::Stage;

/// Set to `1` to record all cases, or to a part of the names of those to record.
const SWITCH: &str = "REVERSER_RECORD";

#[test]
fn record_the_golden_cases_when_asked() {
    let Ok(which) = std::env::var(SWITCH) else {
        return;
    };
    let mut cases = Case::all();
    if which != "1" {
        cases.retain(|case| case.name.contains(&which));
    }
    let cases: Vec<_> = cases.iter().collect();
    let stage = Stage::start();
    stage.set_up(&cases);
    for (case, live) in cases.iter().zip(stage.live(&cases)) {
        let live = without_token(live);
        fs::write(case.live(), pretty(&live)).unwrap();
        fs::write(case.manifest(), canonical(&live)).unwrap();
        println!("recorded {}", case.name);
    }
}

/// A token that a cluster signed would alarm whoever looks for credentials in the repository.
fn without_token(live: String) -> String {
    // "a token that was signed by the cluster"
    const STAND_IN: &str = "YSB0b2tlbiB0aGF0IHdhcyBzaWduZWQgYnkgdGhlIGNsdXN0ZXI=";
    let object: serde_json::Value = serde_json::from_str(&live).unwrap();
    match object["data"]["token"].as_str() {
        Some(token) if object["type"] == "kubernetes.io/service-account-token" => {
            live.replace(token, STAND_IN)
        }
        _ => live,
    }
}

/// JSON on many lines, with every text and number spelled as the server spells it.
fn pretty(json: &str) -> String {
    let mut out = String::with_capacity(2 * json.len());
    let mut indent = 0;
    let mut chars = json.trim().chars().peekable();
    let new_line = |out: &mut String, indent: usize| {
        out.push('\n');
        out.extend(std::iter::repeat_n("  ", indent));
    };
    while let Some(char) = chars.next() {
        match char {
            '"' => {
                out.push(char);
                while let Some(char) = chars.next() {
                    out.push(char);
                    match char {
                        '\\' => out.extend(chars.next()),
                        '"' => break,
                        _ => {}
                    }
                }
            }
            '{' | '[' if matches!(chars.peek(), Some('}' | ']')) => {
                out.push(char);
                out.extend(chars.next());
            }
            '{' | '[' => {
                indent += 1;
                out.push(char);
                new_line(&mut out, indent);
            }
            '}' | ']' => {
                indent -= 1;
                new_line(&mut out, indent);
                out.push(char);
            }
            ',' => {
                out.push(char);
                new_line(&mut out, indent);
            }
            ':' => out.push_str(": "),
            char => out.push(char),
        }
    }
    out.push('\n');
    out
}
