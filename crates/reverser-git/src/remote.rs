//! One repository on the network, as the commands of one mirror see it.

use std::io;
use std::path::Path;
use std::time::Duration;

use crate::branch_name::BranchName;
use crate::cancel::CancelToken;
use crate::clone_cache::{Contents, TIP_REF};
use crate::commit_plan::{Prepared, Tip};
use crate::credentials::Credentials;
use crate::object_id::{BlobId, CommitId};
use crate::porcelain::{
    RemoteFailure, UnreachableCause, classify_failure, parse_ls_remote, parse_redirect,
    says_no_single_objects, says_no_such_ref, summary,
};
use crate::process::{End, Finished, Git, Invocation, Limits};
use crate::push::PushOptions;
use crate::push_progress::PushListener;
use crate::remote_url::RemoteUrl;

/// How long the commands of a mirror may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timeouts {
    /// Fetching and pushing.
    pub transfer: Duration,
    /// Asking where a branch stands.
    pub ask: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            transfer: Duration::from_mins(5),
            ask: Duration::from_secs(30),
        }
    }
}

/// Why a command about the remote did not do what it was asked.
#[derive(Debug)]
pub(crate) enum RemoteProblem {
    Failed(RemoteFailure),
    Cancelled,
    /// Nothing that is known to be about the remote: the clone, the disk, or a message that is not
    /// known.
    Unexplained(String),
    Io(io::Error),
}

impl From<io::Error> for RemoteProblem {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

pub(crate) struct Remote<'a> {
    pub(crate) git: &'a Git,
    /// The mirror's folder; credentials are laid out below it.
    pub(crate) folder: &'a Path,
    pub(crate) url: &'a RemoteUrl,
    pub(crate) branch: &'a BranchName,
    pub(crate) credentials: &'a Credentials,
    pub(crate) timeouts: Timeouts,
    pub(crate) cancel: &'a CancelToken,
}

impl Remote<'_> {
    /// Where the branch stands on the remote now.
    pub(crate) fn ask_tip(&self) -> Result<Option<CommitId>, RemoteProblem> {
        let full_ref = self.branch.full_ref();
        let args = ["ls-remote", "--quiet", "origin"];
        let asked = Invocation::new(self.folder, args).arg(&full_ref);
        let finished = self.run(asked, self.timeouts.ask)?;
        if finished.end != End::Success {
            return Err(self.explain(&finished));
        }
        parse_ls_remote(&finished.stdout, &full_ref)
            .map_err(|unknown| RemoteProblem::Unexplained(unknown.to_string()))
    }

    /// Fetches the newest commit of the branch into the tip ref of the clone. `false` if the branch
    /// does not exist.
    pub(crate) fn fetch_branch(
        &self,
        clone: &Path,
        contents: Contents,
    ) -> Result<bool, RemoteProblem> {
        self.fetch_ref(clone, contents, &self.branch.full_ref())
    }

    /// The same for whatever the remote calls its default branch.
    pub(crate) fn fetch_default(
        &self,
        clone: &Path,
        contents: Contents,
    ) -> Result<bool, RemoteProblem> {
        self.fetch_ref(clone, contents, "HEAD")
    }

    fn fetch_ref(
        &self,
        clone: &Path,
        contents: Contents,
        name: &str,
    ) -> Result<bool, RemoteProblem> {
        let args = [
            "fetch",
            "--quiet",
            "--depth=1",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-auto-maintenance",
        ];
        let mut fetch = Invocation::new(self.folder, args).git_dir(clone);
        if contents == Contents::OnDemand {
            fetch = on_demand(fetch);
        }
        let fetch = fetch.arg("origin").arg(format!("+{name}:{TIP_REF}"));
        let finished = self.run(fetch, self.timeouts.transfer)?;
        match finished.end {
            End::Success => Ok(true),
            End::Failure if says_no_such_ref(&finished.stderr) => Ok(false),
            _ => Err(self.explain(&finished)),
        }
    }

    /// Fetches the branch with all of its past. `false` if it does not exist.
    pub(crate) fn fetch_history(&self, clone: &Path) -> Result<bool, RemoteProblem> {
        let args = [
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-auto-maintenance",
        ];
        let full_ref = self.branch.full_ref();
        let fetch = Invocation::new(self.folder, args)
            .git_dir(clone)
            .arg("origin")
            .arg(format!("+{full_ref}:{full_ref}"));
        let finished = self.run(fetch, self.timeouts.transfer)?;
        match finished.end {
            End::Success => Ok(true),
            End::Failure if says_no_such_ref(&finished.stderr) => Ok(false),
            _ => Err(self.explain(&finished)),
        }
    }

    /// Fetches contents into the clone, in one round trip. `false` if the server does not give
    /// single objects away (or does not have one of them).
    pub(crate) fn fetch_blobs(&self, clone: &Path, ids: &[BlobId]) -> Result<bool, RemoteProblem> {
        let args = [
            "fetch",
            "--quiet",
            "--no-tags",
            "--no-write-fetch-head",
            "--no-auto-maintenance",
        ];
        let fetch = on_demand(Invocation::new(self.folder, args).git_dir(clone))
            // The server must not take our trees for a promise that we have their blobs.
            .config("fetch.negotiationAlgorithm", "noop")
            .arg("--stdin")
            .arg("origin")
            .stdin(lines(ids));
        let finished = self.run(fetch, self.timeouts.transfer)?;
        match finished.end {
            End::Success => Ok(true),
            End::Failure if says_no_single_objects(&finished.stderr) => Ok(false),
            _ => Err(self.explain(&finished)),
        }
    }

    /// Offers prepared commits, stating the tip that they were built on.
    pub(crate) fn push(
        &self,
        clone: &Path,
        prepared: &Prepared,
        options: &PushOptions,
        listener: Option<&PushListener>,
    ) -> io::Result<Finished> {
        let full_ref = self.branch.full_ref();
        let stated = prepared
            .base
            .branch()
            .map(|id| id.to_string())
            .unwrap_or_default();
        let args = [
            "push",
            "--porcelain",
            "--no-verify",
            "--no-recurse-submodules",
        ];
        let mut push = Invocation::new(self.folder, args)
            .git_dir(clone)
            .heard_by(listener)
            .arg(format!("--force-with-lease={full_ref}:{stated}"));
        for option in options.as_slice() {
            push = push.arg(format!("--push-option={option}"));
        }
        if matches!(prepared.base, Tip::NewFrom(_)) {
            // The default branch may have moved on; the server is asked what of ours it has.
            push = push.config("push.negotiate", "true");
        }
        // Always an object's name: an empty source would delete the branch.
        let push = push
            .arg("origin")
            .arg(format!("{}:{full_ref}", prepared.head));
        self.run(push, self.timeouts.transfer)
    }

    fn run(&self, invocation: Invocation<'_>, deadline: Duration) -> io::Result<Finished> {
        let access = self.credentials.access(self.folder)?;
        let invocation = invocation
            .config("remote.origin.url", self.url.as_str())
            .access(self.url.scheme().as_str(), &access);
        self.git.run(
            invocation,
            &Limits {
                deadline,
                cancel: self.cancel,
            },
        )
    }

    /// What went wrong with a command that did not succeed.
    pub(crate) fn explain(&self, finished: &Finished) -> RemoteProblem {
        match finished.end {
            End::Cancelled => RemoteProblem::Cancelled,
            End::TimedOut => RemoteProblem::Failed(RemoteFailure::Unreachable {
                cause: UnreachableCause::TimedOut,
                reason: "it did not answer in time".to_owned(),
            }),
            End::Success | End::Failure => match classify_failure(&finished.stderr) {
                Some(failure) => RemoteProblem::Failed(self.with_new_address(failure)),
                None => RemoteProblem::Unexplained(summary(&finished.stderr)),
            },
        }
    }

    /// Git says only "301"; the address that would work is in a header that a trace shows.
    fn with_new_address(&self, failure: RemoteFailure) -> RemoteFailure {
        let RemoteFailure::Unreachable {
            cause: UnreachableCause::Redirect,
            ..
        } = failure
        else {
            return failure;
        };
        let traced =
            Invocation::new(self.folder, ["ls-remote", "--quiet", "origin", "HEAD"]).trace_http();
        let trace = self
            .run(traced, self.timeouts.ask)
            .map(|finished| finished.stderr);
        let reason = match trace.ok().as_deref().and_then(parse_redirect) {
            Some(url) => format!("the server redirects elsewhere; write repoUrl: {url}"),
            None => "the server redirects elsewhere; write the repository's final URL".to_owned(),
        };
        RemoteFailure::Unreachable {
            cause: UnreachableCause::Redirect,
            reason,
        }
    }
}

fn lines(ids: &[BlobId]) -> Vec<u8> {
    let names: Vec<_> = ids.iter().map(ToString::to_string).collect();
    format!("{}\n", names.join("\n")).into_bytes()
}

/// Leaves the contents on the server. Only commands that fetch may know that the clone is a partial
/// one: a push that does would fetch old contents as bases for its deltas.
fn on_demand(invocation: Invocation<'_>) -> Invocation<'_> {
    invocation
        .arg("--filter=blob:none")
        .config("remote.origin.promisor", "true")
        .config("remote.origin.partialclonefilter", "blob:none")
}
