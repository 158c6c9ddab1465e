//! Contents that wait to be written: kept in memory while they are few, on the disk otherwise, and
//! nowhere if the disk does not take them. Then they are read from the API again once it does.

use std::collections::HashSet;

use reverser_core::blob_id::BlobId;

use super::Writer;
use super::contents::{self, WAITING_BYTES};

impl Writer {
    fn waiting_bytes(&self) -> usize {
        let states = self.destinations.values();
        states.map(|state| state.contents.bytes()).sum()
    }

    /// Moves contents to the disk when too many of them wait.
    pub(super) async fn limit_memory(&mut self) {
        if self.waiting_bytes() <= WAITING_BYTES {
            return;
        }
        self.forget_what_is_there().await;
        // Otherwise the next few changes would bring it all here again.
        if self.waiting_bytes() <= WAITING_BYTES / 2 {
            return;
        }
        if self.staged.is_none()
            && let Ok(mirror) = self.take_mirror().await
        {
            self.mirror = Some(mirror);
        }
        for state in self.destinations.values_mut() {
            let contents = std::mem::take(&mut state.contents);
            let staged = self.staged.clone();
            let task = tokio::task::spawn_blocking(move || {
                let written = staged.map(|staged| contents.stage(&staged));
                (contents, written)
            });
            let Ok((mut contents, written)) = task.await else {
                continue;
            };
            match written {
                Some(Ok(())) => contents.leave_to_disk(),
                // That the disk cannot be written is told by the next attempt.
                Some(Err(_)) | None => contents.forget_memory(),
            }
            state.contents.merge(contents);
        }
        self.clear_staged().await;
    }

    /// Forgets contents that nothing wants any more, and those that the branch has, as far as it is
    /// known what it has: after a restart these are nearly all.
    async fn forget_what_is_there(&mut self) {
        for state in self.destinations.values_mut() {
            state.forget_superseded();
            let Some(mirror) = self.mirror.take_if(|mirror| mirror.tip().is_some()) else {
                continue;
            };
            let files = state.files_in_memory().into_iter();
            let files = files.map(|(path, blob)| (state.destination.folder.join(path), blob));
            let files: Vec<(String, BlobId)> = files.collect();
            let task = tokio::task::spawn_blocking(move || contents::missing_from(mirror, &files));
            // A clone that is lost is opened again by the next attempt.
            let Ok((mirror, missing)) = task.await else {
                continue;
            };
            self.mirror = Some(mirror);
            if let Some(missing) = missing {
                state.contents.retain_in_memory(&missing);
            }
        }
    }

    /// Drops from the disk what no destination needs any more. While an attempt has the clone, that
    /// waits for the next time.
    pub(super) async fn clear_staged(&mut self) {
        let Some(mut mirror) = self.mirror.take() else {
            return;
        };
        self.pushes_since_cleared = 0;
        let states = self.destinations.values();
        let needed: HashSet<_> = states
            .flat_map(|state| state.contents.staged())
            .map(|blob| reverser_git::BlobId::from_bytes(*blob.as_bytes()))
            .collect();
        let task = tokio::task::spawn_blocking(move || {
            // What cannot be removed now is a matter of space, and tried again.
            let _ = mirror.retain_staged(|blob| needed.contains(&blob));
            mirror
        });
        self.mirror = task.await.ok();
    }
}
