//! `clean`: live objects in, canonical YAML out.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use reverser_core::canon::canonicalise;
use reverser_core::json_read;
use reverser_core::object::{Object, ObjectError, TypeMeta};
use reverser_core::object_key::{KeyError, ObjectKey, TypeKey, guess_resource};
use reverser_core::repo_path::RepoPath;
use reverser_core::value::Value;
use reverser_core::yaml_read::{self, Document};

use crate::command_line::CleanArguments;

pub(super) fn run(arguments: &CleanArguments) -> ExitCode {
    let CleanArguments {
        files,
        path,
        keep_going,
    } = arguments;
    let standard_input = [PathBuf::from("-")];
    let files = if files.is_empty() {
        &standard_input[..]
    } else {
        files
    };
    let mut output = String::new();
    let mut failed = false;
    for file in files {
        let results =
            read(file).map_or_else(|problem| vec![Err(problem)], |text| clean_text(&text));
        for result in results {
            match result {
                Ok(object) => object.append_to(&mut output, *path),
                Err(problem) => {
                    failed = true;
                    eprintln!("error: {}{problem}", display_name(file));
                }
            }
        }
    }
    if failed && !keep_going {
        if !output.is_empty() {
            eprintln!("hint: --keep-going prints the objects that can be read");
        }
        return ExitCode::FAILURE;
    }
    if let Err(error) = super::print(&output) {
        eprintln!("error: cannot write to standard output: {error}");
        failed = true;
    }
    if failed {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

/// Why a part of the input is not in the output. The place continues the name of the file.
#[derive(Debug, thiserror::Error)]
enum Problem {
    #[error(": cannot be read: {0}")]
    Unreadable(#[from] io::Error),
    #[error(": is not UTF-8 at byte {0}")]
    NotUtf8(usize),
    #[error(": is empty")]
    Empty,
    #[error(", document {document}: {source}")]
    NotADocument {
        document: usize,
        source: yaml_read::ReadError,
    },
    #[error(", document {document}: line {line}, column {column}: {source}")]
    NotAnObject {
        document: usize,
        line: usize,
        column: usize,
        source: NotAnObject,
    },
    #[error(", document {document}, item {item}: line {line}, column {column}: {source}")]
    NotAnItem {
        document: usize,
        item: usize,
        line: usize,
        column: usize,
        source: NotAnObject,
    },
}

#[derive(Debug, thiserror::Error)]
enum NotAnObject {
    #[error(transparent)]
    Shape(#[from] ObjectError),
    #[error(transparent)]
    Identity(#[from] KeyError),
}

struct CleanObject {
    path: RepoPath,
    yaml: String,
}

impl CleanObject {
    fn append_to(&self, output: &mut String, with_path: bool) {
        if !output.is_empty() {
            output.push_str("---\n");
        }
        if with_path {
            let _infallible = writeln!(output, "# {}", self.path);
        }
        output.push_str(&self.yaml);
    }
}

fn display_name(file: &Path) -> String {
    if file == Path::new("-") {
        "standard input".into()
    } else {
        file.display().to_string()
    }
}

fn read(file: &Path) -> Result<String, Problem> {
    let bytes = if file == Path::new("-") {
        if io::stdin().is_terminal() {
            eprintln!("reading objects from standard input; end with Ctrl-D");
        }
        let mut bytes = Vec::new();
        io::stdin().read_to_end(&mut bytes)?;
        bytes
    } else {
        std::fs::read(file)?
    };
    String::from_utf8(bytes).map_err(|error| Problem::NotUtf8(error.utf8_error().valid_up_to()))
}

fn clean_text(text: &str) -> Vec<Result<CleanObject, Problem>> {
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    let documents = read_documents(text);
    if documents.is_empty() {
        return vec![Err(Problem::Empty)];
    }
    (1..)
        .zip(documents)
        .flat_map(|(number, document)| clean_document(document, number))
        .collect()
}

/// As kubectl does it: what begins like JSON is read as JSON, and if that fails, as YAML, of which
/// JSON is a part.
fn read_documents(text: &str) -> Vec<Document<'_>> {
    if text.trim_start().starts_with(['{', '[']) {
        let documents: Vec<_> = json_read::read_stream(text).collect();
        let failed = documents.iter().any(|document| document.value.is_err());
        let yaml: Option<Vec<_>> = failed.then(|| yaml_read::documents(text).collect());
        match yaml {
            Some(yaml) if yaml.iter().all(|document| document.value.is_ok()) => yaml,
            _ => documents,
        }
    } else {
        yaml_read::documents(text).collect()
    }
}

fn clean_document(read: Document<'_>, document: usize) -> Vec<Result<CleanObject, Problem>> {
    let Document {
        line,
        column,
        value,
    } = read;
    match value.map(List::from_value) {
        Err(source) => vec![Err(Problem::NotADocument { document, source })],
        // A document that says nothing is one `---` too many, not a mistake.
        Ok(Err(Value::Null)) => Vec::new(),
        Ok(Err(value)) => {
            let object = clean(value, None);
            vec![object.map_err(|source| Problem::NotAnObject {
                document,
                line,
                column,
                source,
            })]
        }
        Ok(Ok(List {
            api_version,
            item_kind,
            items,
        })) => {
            let item_of = item_kind.as_ref().map(|kind| TypeMeta {
                api_version: &api_version,
                kind,
            });
            let clean_item = |(item, value)| {
                clean(value, item_of).map_err(|source| Problem::NotAnItem {
                    document,
                    item,
                    line,
                    column,
                    source,
                })
            };
            (1..).zip(items).map(clean_item).collect()
        }
    }
}

fn clean<'a>(value: Value<'a>, item_of: Option<TypeMeta<'a>>) -> Result<CleanObject, NotAnObject> {
    let object = Object::from_value(value, item_of)?;
    let type_key = TypeKey::new(
        object.group(),
        object.version(),
        guess_resource(object.kind()),
    )?;
    let namespace = object.namespace().map(str::to_owned);
    let key = ObjectKey::new(type_key, namespace, object.name())?;
    Ok(CleanObject {
        path: RepoPath::of(&key),
        yaml: canonicalise(object).to_yaml(),
    })
}

/// The answer to `kubectl get` of several objects, or of the API to a list.
struct List<'a> {
    api_version: String,
    /// The kind of items that do not carry their own; nothing for a list of mixed kinds.
    item_kind: Option<String>,
    items: Vec<Value<'a>>,
}

impl<'a> List<'a> {
    /// Gives the value back if it is no list.
    fn from_value(mut value: Value<'a>) -> Result<Self, Value<'a>> {
        let Some(root) = value.as_map_mut() else {
            return Err(value);
        };
        // A list has no name; an object of a kind like `AllowList` has one.
        if root.at(&["metadata", "name"]).is_some() {
            return Err(value);
        }
        let item_kind = root.text("kind").and_then(|kind| kind.strip_suffix("List"));
        let Some(item_kind) = item_kind.map(|kind| (!kind.is_empty()).then(|| kind.to_owned()))
        else {
            return Err(value);
        };
        let api_version = root.text("apiVersion").unwrap_or_default().to_owned();
        match root.remove("items") {
            Some(Value::List(items)) => Ok(Self {
                api_version,
                item_kind,
                items,
            }),
            // An empty list, as Go writes it.
            Some(Value::Null) => Ok(Self {
                api_version,
                item_kind,
                items: Vec::new(),
            }),
            // A kind of somebody's own whose name ends so.
            Some(other) => {
                root.insert("items", other);
                Err(value)
            }
            None => Err(value),
        }
    }
}
