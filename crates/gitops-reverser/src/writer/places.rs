//! How folders, files and contents are called in Git.

use reverser_core::base_folder::BaseFolder;
use reverser_core::blob_id::BlobId;
use reverser_core::repo_path::RepoPath;
use reverser_git::FolderPath;

use super::refusals::local;
use crate::routing::Refusal;

pub(super) fn folder_path(folder: &BaseFolder) -> Result<FolderPath, Refusal> {
    FolderPath::or_root(folder.as_str()).map_err(|error| local(&error))
}

pub(super) fn git_path(
    folder: &BaseFolder,
    path: &RepoPath,
) -> Result<reverser_git::RepoPath, Refusal> {
    reverser_git::RepoPath::parse(&folder.join(path)).map_err(|error| local(&error))
}

pub(super) fn git_id(blob: BlobId) -> reverser_git::BlobId {
    reverser_git::BlobId::from_bytes(*blob.as_bytes())
}
