//! Asks a repository whether it lets us in, without writing to it.

use std::path::Path;

use reverser_git::{BranchName, CancelToken, Credentials, Git, Mirror, MirrorOptions, RemoteUrl};

use super::refusals;
use crate::routing::Refusal;

/// What is needed to ask; it blocks, so it runs beside the executor.
pub(crate) struct Reaching<'a> {
    pub(crate) git: Git,
    pub(crate) url: RemoteUrl,
    pub(crate) credentials: Credentials,
    pub(crate) cancel: CancelToken,
    /// Used as long as it takes, and removed.
    pub(crate) folder: &'a Path,
}

impl Reaching<'_> {
    pub(crate) fn ask(self) -> Result<(), Refusal> {
        let Self {
            git,
            url,
            credentials,
            cancel,
            folder,
        } = self;
        // Whether there is such a branch does not matter.
        let branch = BranchName::parse("main").map_err(|error| refusals::local(&error))?;
        let options = MirrorOptions {
            cancel,
            ..MirrorOptions::default()
        };
        let mirror = Mirror::open(git, url, branch, folder, credentials, options)
            .map_err(|error| refusals::local(&error))?;
        let answer = mirror.reach().map_err(|error| refusals::reach(&error));
        // What cannot be removed is a matter of space.
        let _ = mirror.remove();
        answer
    }
}
