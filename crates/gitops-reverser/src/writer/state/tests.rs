//! What a destination keeps, and for how long.

use reverser_core::commit_message::Installation;
use reverser_core::object_key::ObjectKey;
use reverser_core::plan::PruneMode;
use reverser_git::{BranchName, CancelToken, Git, RemoteUrl, Scheme};

use super::*;
use crate::routing::Target;

fn settings() -> WriterSettings {
    WriterSettings {
        git: Git::find().unwrap(),
        cut_off: CancelToken::new(),
        work_dir: "unused".into(),
        limits: Limits {
            max_files: 10,
            max_bytes: 1000,
            max_wait: Duration::from_secs(1),
            quiet: Duration::ZERO,
        },
        poll: Duration::from_mins(1),
        deletes_cap: None,
        grace: Duration::ZERO,
        committer: Person::new("operator", "operator@example.com").unwrap(),
        installation: Installation {
            cluster_uid: "uid".into(),
            controller_namespace: "system".into(),
            controller_name: "operator".into(),
            instance_id: "one".into(),
        },
        marks_folders: true,
        on_push: None,
    }
}

#[test]
fn names_of_deleted_objects_are_not_kept_for_ever_where_their_files_stay() {
    let target = Target {
        url: RemoteUrl::parse("https://git.example.com/r", Scheme::DEFAULT_ALLOWED).unwrap(),
        branch: BranchName::parse("main").unwrap(),
        repo: Id::new("shop", "repo"),
    };
    let now = Instant::now();
    for mode in [PruneMode::Never, PruneMode::OnEvent, PruneMode::Always] {
        let destination = Destination {
            prune: mode,
            ..Destination::sample(target.clone())
        };
        let mut state = DestinationState::new(destination, now);
        state.take(ToWriter::Knowledge(Box::default()), now, None);
        let maps = TypeKey::new("", "v1", "configmaps").unwrap();
        let gone = ObjectKey::new(maps, Some("shop".into()), "gone").unwrap();
        let removal = ToWriter::Remove {
            path: RepoPath::of(&gone),
            proof: Some(DeleteProof::Deselected),
            origin: None,
        };
        state.take(removal, now, None);
        assert_eq!(state.proofs.of_file.len(), 1);
        let job = state.begin(&Id::new("shop", "prod"), &settings(), now);
        state.finish(job.unwrap(), now);
        assert_eq!(state.proofs.of_file.len(), 0, "{mode:?}");
    }
}
