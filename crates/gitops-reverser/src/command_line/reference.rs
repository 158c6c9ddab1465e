//! The page about flags, made from the flags.

use std::fmt::Write as _;

use clap::{Arg, CommandFactory as _};

use super::CommandLine;
use crate::reference_page::assert_current;

const BEGINNING: &str = "\
# Flags of the controller

<!-- Written from the code: `make docs` writes it again. -->

What `gitops-reverser controller` can be told. Every flag can be given as an environment variable
instead; where both are there, the flag counts. A value that cannot be used is refused at start, with
the reason and what to write instead, and exit status 2.

Durations are whole numbers with `h`, `m`, `s` or `ms`, such as `5m` or `1h30m`. Flags that are true or
false can be given without a value: `--watch-all` is `--watch-all=true`.
";

#[test]
fn the_page_about_flags_is_made_from_the_flags() {
    assert_current("docs/reference/flags.md", &flags_markdown());
}

const COMMANDS_BEGINNING: &str = "\
# Commands

<!-- Written from the code: `make docs` writes it again. -->

What `gitops-reverser` can do, command by command. The flags of `controller` have a page of their own:
[flags.md](flags.md). How they are used together is in
[the guide](../guides/command-line.md).
";

#[test]
fn the_page_about_commands_is_made_from_the_commands() {
    assert_current("docs/reference/commands.md", &commands_markdown());
}

fn commands_markdown() -> String {
    let mut page = String::from(COMMANDS_BEGINNING);
    let command = CommandLine::command();
    let others = command.get_subcommands();
    for command in others.filter(|command| command.get_name() != "controller") {
        let about = command.get_long_about().or_else(|| command.get_about());
        let about = about.map(ToString::to_string).unwrap_or_default();
        let about = about.trim_end_matches('.').replace("\n\n", ".\n\n");
        let _infallible = write!(page, "\n## {}\n\n{about}.\n", command.get_name());
        let shown = |flag: &&Arg| !flag.is_hide_set();
        let mut rows = command.get_arguments().filter(shown).peekable();
        if rows.peek().is_some() {
            page.push_str("\n| flag | default | meaning |\n|---|---|---|\n");
        }
        for flag in rows {
            append_of_command(&mut page, flag);
        }
        if let Some(examples) = command.get_after_help() {
            let _infallible = write!(page, "\n```text\n{examples}\n```\n");
        }
    }
    page
}

fn append_of_command(page: &mut String, flag: &Arg) {
    let value = flag
        .get_value_names()
        .filter(|_| flag.get_action().takes_values());
    let value = value.map_or_else(String::new, |names| format!(" {}", names.join(" ")));
    let name = match (flag.get_short(), flag.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long}{value}"),
        (None, Some(long)) => format!("--{long}{value}"),
        _ => value.trim().to_owned(),
    };
    let default = flag.get_default_values().iter();
    let default: Vec<_> = default
        .map(|value| format!("`{}`", value.to_string_lossy()))
        .collect();
    let help = flag.get_help().map(ToString::to_string).unwrap_or_default();
    let meaning = help.replace('|', "\\|").replace('*', "\\*");
    let _infallible = writeln!(page, "| `{name}` | {} | {meaning} |", default.join(", "));
}

fn flags_markdown() -> String {
    let command = CommandLine::command();
    let controller = command.find_subcommand("controller").unwrap();
    let mut page = String::from(BEGINNING);
    let mut heading = "";
    for flag in controller.get_arguments() {
        let under = flag.get_help_heading().unwrap_or("General");
        if under != heading {
            heading = under;
            let _infallible = write!(
                page,
                "\n## {heading}\n\n| flag | default | meaning |\n|---|---|---|\n"
            );
        }
        append(&mut page, flag);
    }
    page
}

fn append(page: &mut String, flag: &Arg) {
    let (Some(name), Some(variable)) = (flag.get_long(), flag.get_env()) else {
        return;
    };
    let default: Vec<_> = flag
        .get_default_values()
        .iter()
        .map(|value| format!("`{}`", value.to_string_lossy()))
        .collect();
    let help = flag.get_long_help().or_else(|| flag.get_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let meaning = help
        .replace('|', "\\|")
        .replace('*', "\\*")
        .replace("\n- ", "<br>• ");
    let _infallible = writeln!(
        page,
        "| `--{name}`<br>`{}` | {} | {meaning} |",
        variable.to_string_lossy(),
        default.join(", ")
    );
}
