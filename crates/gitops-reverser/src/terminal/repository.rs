//! The repository that flags name: on a server, or at a path of this machine.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::FutureExt as _;
use reverser_api::conditions::remote_reason;
use reverser_core::base_folder::BaseFolder;
use reverser_git::{
    AtPath, BadRemoteUrl, BranchName, Credentials, FetchError, FolderPath, Git, History,
    HistoryError, LocalRepository, RemoteFailure, RemoteUrl, Scheme,
};

use super::comparison::Branch;
use super::exit::{Complaint, Exit};
use crate::command_line::RepositoryArguments;
use crate::routing::Refusal;
use crate::writer::{Access, AccessSource};

/// All that can be written here: a laptop's user decides for themself.
pub const SCHEMES: &[Scheme] = &[Scheme::Https, Scheme::Ssh, Scheme::Http, Scheme::File];

/// What to do instead of writing a password into an address.
const WITHOUT_CREDENTIALS: &str = "the repository's address holds a user or password, which others could \
     read: write it without them, and let a credential helper of Git keep them (`git help credentials`)";

/// A folder of a branch of a repository.
#[derive(Debug, Clone)]
pub struct Repository {
    /// The program.
    pub git: Git,
    /// Where it is.
    pub url: RemoteUrl,
    /// Where it is, if that is on this machine.
    pub local: Option<LocalRepository>,
    /// The branch.
    pub branch: BranchName,
    /// The folder.
    pub folder: BaseFolder,
    /// Where clones are kept.
    pub work_dir: PathBuf,
    /// Whether it is still to be created.
    is_new: bool,
}

/// What is going to be done with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// It must exist.
    Read,
    /// It is created where it is missing, and must not be checked out.
    Write,
}

impl Repository {
    /// Finds it.
    pub fn find(arguments: &RepositoryArguments, purpose: Purpose) -> Result<Self, Complaint> {
        let RepositoryArguments {
            repo,
            branch,
            folder,
            work_dir,
        } = arguments;
        let repo = repo.as_deref().ok_or_else(|| {
            Complaint::new(
                Exit::Usage,
                "which repository? Write --repo with a URL or a path",
            )
        })?;
        let branch = BranchName::parse(branch)
            .map_err(|error| Complaint::new(Exit::Usage, format!("--branch: {error}")))?;
        let unusable = |error: &dyn std::fmt::Display| {
            Complaint::new(Exit::FolderUnusable, format!("--folder: {error}"))
        };
        let folder =
            BaseFolder::parse(folder.trim_end_matches('/')).map_err(|error| unusable(&error))?;
        FolderPath::or_root(folder.as_str()).map_err(|error| unusable(&error))?;
        let git = Git::find().map_err(Complaint::failed)?;
        let work_dir = work_dir
            .clone()
            .unwrap_or_else(|| user_folder("XDG_CACHE_HOME", ".cache"));
        let (url, local, is_new) = if let Some(path) = path_in(repo) {
            let found = local(&git, &path, &branch, purpose)?;
            let is_new = found.is_none();
            let local = match found {
                Some(found) => found,
                None => LocalRepository {
                    git_dir: std::path::absolute(&path).map_err(Complaint::failed)?,
                    checked_out: Vec::new(),
                },
            };
            (url_of(&local)?, Some(local), is_new)
        } else {
            let url = RemoteUrl::parse(repo, SCHEMES).map_err(|error| {
                let sentence = match error {
                    // What helps an operator is of no use here.
                    BadRemoteUrl::Credentials => WITHOUT_CREDENTIALS.to_owned(),
                    error => error.to_string(),
                };
                Complaint::new(Exit::RepositoryUnusable, sentence)
            })?;
            (url, None, false)
        };
        Ok(Self {
            git,
            url,
            local,
            branch,
            folder,
            work_dir,
            is_new,
        })
    }

    /// Whether it holds nothing yet because it does not exist.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// With what it is reached: whatever the user's own Git would use.
    #[must_use]
    pub fn credentials(&self) -> Credentials {
        Credentials::of_user(&self.git, &self.url)
    }

    /// The same for a writer, which asks each time. A repository that is new is created here, when
    /// there is something to write, and not before.
    #[must_use]
    pub fn access(&self) -> AccessSource {
        let this = self.clone();
        Arc::new(move || {
            let this = this.clone();
            let asked = tokio::task::spawn_blocking(move || {
                this.create()?;
                Ok(this.credentials())
            });
            async move {
                let broken = |error: &dyn std::fmt::Display| Refusal {
                    reason: remote_reason::CREDENTIALS_REFUSED,
                    message: error.to_string(),
                };
                let asked: Result<Credentials, std::io::Error> =
                    asked.await.map_err(|error| broken(&error))?;
                Ok(Access {
                    credentials: asked.map_err(|error| broken(&error))?,
                    signer: None,
                })
            }
            .boxed()
        })
    }

    fn create(&self) -> std::io::Result<()> {
        if let Some(local) = self.local.as_ref().filter(|_| self.is_new)
            && !local.git_dir.join("HEAD").exists()
        {
            LocalRepository::create(&self.git, &local.git_dir, &self.branch).map_err(|error| {
                let shown = local.git_dir.display();
                std::io::Error::other(format!("no repository can be created at {shown}: {error}"))
            })?;
        }
        Ok(())
    }

    /// The branch as it stands now.
    pub fn fetch(&self) -> Result<Branch, Complaint> {
        Branch::fetch(
            self.git.clone(),
            &self.url,
            &self.branch,
            self.credentials(),
            &self.work_dir,
        )
    }

    /// The branch with all of its past.
    pub fn history(&self) -> Result<History, Complaint> {
        let history = if let Some(local) = &self.local {
            History::of_local(self.git.clone(), &local.git_dir, &self.branch)
        } else {
            let name = format!("history\n{}\n{}", self.url, self.branch.as_str());
            let name = reverser_core::blob_id::BlobId::of(name.as_bytes()).to_string();
            History::fetch(
                self.git.clone(),
                &self.url,
                &self.branch,
                &self.credentials(),
                &self.work_dir.join(name),
            )
        };
        history.map_err(|error| self.complaint(&error))
    }

    /// The folder as Git has it.
    #[must_use]
    pub fn folder_path(&self) -> FolderPath {
        FolderPath::or_root(self.folder.as_str()).expect("`find` has parsed it")
    }

    /// What a person calls it.
    #[must_use]
    pub fn name(&self) -> String {
        let place = match &self.local {
            Some(local) => local.git_dir.display().to_string(),
            None => self.url.to_string(),
        };
        format!("branch {} of {place}", self.branch.as_str())
    }

    fn complaint(&self, error: &HistoryError) -> Complaint {
        match error {
            HistoryError::Fetch(error) => of_fetch(error),
            HistoryError::NoBranch(branch) => Complaint::new(
                Exit::RepositoryUnusable,
                format!(
                    "there is no branch {branch:?} in {}: choose one with --branch",
                    self.url
                ),
            ),
            error => Complaint::new(Exit::RepositoryUnusable, error.to_string()),
        }
    }
}

/// What a repository that cannot be fetched means for a person.
#[must_use]
pub fn of_fetch(error: &FetchError) -> Complaint {
    let exit = match error {
        FetchError::Remote(RemoteFailure::Unauthorised { .. }) => Exit::RepositoryRefused,
        _ => Exit::RepositoryUnusable,
    };
    Complaint::new(exit, repository_sentence(exit, &error.to_string()))
}

/// The sentence about a repository that says no.
#[must_use]
pub fn repository_sentence(exit: Exit, why: &str) -> String {
    match exit {
        Exit::RepositoryRefused => format!(
            "the repository refuses: {why}; check that your Git credentials (credential helper, SSH key) \
             may push there"
        ),
        _ => format!("the repository cannot be used: {why}; check --repo"),
    }
}

/// A path of this machine is whatever has no scheme and no `user@host:`.
fn path_in(repo: &str) -> Option<PathBuf> {
    if let Some(path) = repo.strip_prefix("file://") {
        return Some(PathBuf::from(path));
    }
    if repo.contains("://") {
        return None;
    }
    let looks_like_path = repo.starts_with(['/', '.', '~']);
    let names_host = repo
        .split_once(':')
        .is_some_and(|(head, _)| head.contains('@') && !head.contains('/'));
    if !looks_like_path && (names_host || repo.starts_with('-')) {
        return None;
    }
    Some(match (repo.strip_prefix("~/"), std::env::var_os("HOME")) {
        (Some(rest), Some(home)) => Path::new(&home).join(rest),
        _ => PathBuf::from(repo),
    })
}

/// What is there; nothing where it is to be created.
fn local(
    git: &Git,
    path: &Path,
    branch: &BranchName,
    purpose: Purpose,
) -> Result<Option<LocalRepository>, Complaint> {
    let unusable = |why: String| Complaint::new(Exit::RepositoryUnusable, why);
    let shown = path.display();
    let found = LocalRepository::look(git, path)
        .map_err(|error| unusable(format!("{shown} cannot be read: {error}")))?;
    let found = match (found, purpose) {
        (AtPath::Repository(found), _) => found,
        (AtPath::Nothing, Purpose::Write) => return Ok(None),
        (AtPath::Nothing, Purpose::Read) => {
            return Err(unusable(format!(
                "there is no repository at {shown}: check --repo"
            )));
        }
        (AtPath::SomethingElse, _) => {
            return Err(unusable(format!(
                "{shown} holds something that is no repository: name an empty or new folder, or a \
                 repository"
            )));
        }
    };
    if purpose == Purpose::Write
        && let Some(work_tree) = found.where_checked_out(branch)
    {
        return Err(Complaint::new(
            Exit::BranchCheckedOut,
            format!(
                "branch {} is checked out in {}, whose files would not follow: choose another with \
                 --branch (it is created if it is missing), or name a repository without a work tree",
                branch.as_str(),
                work_tree.display()
            ),
        ));
    }
    Ok(Some(found))
}

fn url_of(local: &LocalRepository) -> Result<RemoteUrl, Complaint> {
    let path = local.git_dir.display().to_string();
    RemoteUrl::parse(&format!("file://{path}"), SCHEMES).map_err(|error| {
        Complaint::new(
            Exit::RepositoryUnusable,
            format!("{path}: {error}; choose a path without spaces and special characters"),
        )
    })
}

/// A folder for this program below one of the user's own.
pub(crate) fn user_folder(variable: &str, below_home: &str) -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let base = set(variable)
        .map(PathBuf::from)
        .or_else(|| set("HOME").map(|home| Path::new(&home).join(below_home)))
        .unwrap_or_else(std::env::temp_dir);
    base.join("gitops-reverser")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_told_from_an_address() {
        let path = |text: &str| path_in(text).map(|path| path.display().to_string());
        for (text, expected) in [
            ("./backup", Some("./backup")),
            ("backup", Some("backup")),
            ("/srv/a:b", Some("/srv/a:b")),
            ("file:///srv/git", Some("/srv/git")),
            ("git@host:path", None),
            ("https://host/path", None),
            ("-oProxyCommand=x", None),
        ] {
            assert_eq!(path(text).as_deref(), expected, "{text}");
        }
    }
}
