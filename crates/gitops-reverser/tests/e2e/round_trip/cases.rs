use std::fs;
use std::path::{Path, PathBuf};

/// One golden case: an object, what a person wrote, what the server made of it, and its file.
/// `tests/golden/README.md` says what the files of a case are.
pub(super) struct Case {
    /// For instance `service/headless`.
    pub(super) name: String,
    folder: PathBuf,
}

/// What a person wrote.
pub(super) struct Setup {
    /// What has to be there before.
    pub(super) prerequisites: String,
    /// The object that the case is about.
    pub(super) object: String,
    /// How it is given to the server.
    pub(super) how: How,
}

/// How an object is given to the server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// Leaves no copy of what was written.
    Create,
    Apply,
    ServerSideApply,
}

impl How {
    pub(super) const ALL: [Self; 3] = [Self::Create, Self::Apply, Self::ServerSideApply];

    pub(super) fn command(self) -> &'static str {
        match self {
            Self::Create => "kubectl create",
            Self::Apply => "kubectl apply",
            Self::ServerSideApply => "kubectl apply --server-side",
        }
    }

    /// From the first line of a setup; apply is so usual that it is not mentioned.
    fn read(setup: &str) -> Self {
        let is_named =
            |how: &Self| setup.starts_with(&format!("# {} -f setup.yaml\n", how.command()));
        Self::ALL.into_iter().find(is_named).unwrap_or(Self::Apply)
    }
}

impl Case {
    /// All of them, by name.
    pub(super) fn all() -> Vec<Self> {
        let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden"));
        let mut cases = Vec::new();
        for kind in folders(root) {
            for folder in folders(&kind) {
                let name = folder
                    .strip_prefix(root)
                    .unwrap()
                    .to_str()
                    .unwrap()
                    .to_owned();
                cases.push(Self { name, folder });
            }
        }
        cases.sort_by(|a, b| a.name.cmp(&b.name));
        assert!(!cases.is_empty(), "there are golden cases");
        cases
    }

    pub(super) fn setup(&self) -> Setup {
        let text = fs::read_to_string(self.folder.join("setup.yaml")).unwrap();
        let how = How::read(&text);
        let (prerequisites, object) = match text.rsplit_once("\n---\n") {
            Some((before, object)) => (format!("{before}\n"), object.to_owned()),
            None => (String::new(), text),
        };
        Setup {
            prerequisites,
            object,
            how,
        }
    }

    /// A script of the case, if it has it.
    pub(super) fn script(&self, name: &str) -> Option<PathBuf> {
        Some(self.folder.join(name)).filter(|script| script.exists())
    }

    /// The raw answer of the server.
    pub(super) fn live(&self) -> PathBuf {
        self.folder.join("live.json")
    }

    /// The canonical file.
    pub(super) fn manifest(&self) -> PathBuf {
        self.folder.join("manifest.yaml")
    }
}

fn folders(parent: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(parent)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_dir()).collect()
}
