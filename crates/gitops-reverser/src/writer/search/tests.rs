//! A server that takes no content of a certain kind, and attempts that may make only so many pushes.

use std::collections::BTreeSet;

use reverser_core::object_key::{ObjectKey, TypeKey};
use reverser_core::plan::Put;
use reverser_core::transition_log::Credit;

use super::*;

const UNLIMITED: usize = usize::MAX / 2;

fn path(name: &str) -> RepoPath {
    let maps = TypeKey::new("", "v1", "configmaps").unwrap();
    RepoPath::of(&ObjectKey::new(maps, Some("shop".into()), name).unwrap())
}

fn refusal() -> Refusal {
    Refusal {
        kind: RefusalKind::Hook,
        reason: "no".to_owned(),
    }
}

/// What is wanted, what the branch holds, and what the server does not take.
#[derive(Default)]
struct World {
    wanted: BTreeMap<RepoPath, BlobId>,
    there: BTreeMap<RepoPath, BlobId>,
    bad: BTreeSet<BlobId>,
    found: Found,
    /// The files of each push, in order.
    pushes: Vec<usize>,
    refused: BTreeSet<RepoPath>,
    in_vain: bool,
    about_objects: bool,
    /// It takes nothing any more.
    closed: bool,
}

impl World {
    /// So many objects, of which the server does not take some.
    fn of(objects: usize, is_bad: impl Fn(usize) -> bool) -> Self {
        let mut world = Self::default();
        for number in 0..objects {
            let text = if is_bad(number) { "bad" } else { "good" };
            world.want(&format!("o{number:03}"), &format!("{text} {number}"));
        }
        world
    }

    fn want(&mut self, name: &str, text: &str) {
        let blob = BlobId::of(text.as_bytes());
        if text.starts_with("bad") {
            self.bad.insert(blob);
        }
        self.wanted.insert(path(name), blob);
    }

    /// The difference, as one commit.
    fn parts(&self) -> Vec<Part> {
        let wanted = self.wanted.iter();
        let puts = wanted.filter(|(path, blob)| self.there.get(*path) != Some(*blob));
        let puts: Vec<Put> = puts
            .map(|(path, blob)| Put {
                path: path.clone(),
                blob: *blob,
                replaces: self.there.get(path).copied(),
            })
            .collect();
        let share = Share {
            credit: Credit::Reconcile,
            puts,
            deletes: Vec::new(),
        };
        if share.puts.is_empty() {
            return Vec::new();
        }
        vec![Part { job: 0, share }]
    }

    fn push(&mut self, part: &Part) -> bool {
        let puts = &part.share.puts;
        self.pushes.push(puts.len());
        let takes = !self.closed && puts.iter().all(|put| !self.bad.contains(&put.blob));
        if takes {
            let written = puts.iter().map(|put| (put.path.clone(), put.blob));
            self.there.extend(written);
        }
        takes
    }

    /// One attempt that may make so many pushes; tells whether the search has come to its end.
    fn attempt(&mut self, most: usize) -> bool {
        let end = self.pushes.len() + most;
        let parts = self.parts();
        let found = std::mem::take(&mut self.found);
        let mut search = match Search::go_on(vec![found], &parts) {
            Some(search) => search,
            None if parts.iter().all(|part| self.push(part)) => return true,
            None => {
                let mut search = Search::begin(parts, &refusal());
                search.refuse(&refusal());
                search
            }
        };
        while let Some((part, _)) = search.next() {
            if self.pushes.len() == end {
                self.found = search.keep(1).remove(0);
                return false;
            }
            if self.push(&part) {
                search.pass();
            } else {
                search.refuse(&refusal());
            }
        }
        let refused = search.refused.iter();
        let refused = refused.map(|refused| refused.part.share.puts[0].path.clone());
        self.refused = refused.collect();
        self.in_vain = search.is_in_vain();
        self.about_objects = search.is_about_objects();
        true
    }
}

#[test]
fn a_search_that_is_interrupted_again_and_again_finds_the_same_and_pushes_nothing_twice() {
    for objects in [1, 2, 3, 7, 16, 33] {
        for bad in [vec![0], vec![objects - 1], vec![0, objects / 2]] {
            let world = || World::of(objects, |number| bad.contains(&number));
            let mut at_once = world();
            assert!(at_once.attempt(UNLIMITED));
            let bad: BTreeSet<RepoPath> = bad.iter().map(|n| path(&format!("o{n:03}"))).collect();
            assert_eq!(at_once.refused, bad);
            assert_eq!(at_once.there.len(), objects - bad.len());
            for pushes in [1, 2, 5] {
                let mut paced = world();
                let mut attempts = 1;
                while !paced.attempt(pushes) {
                    attempts += 1;
                    assert!(attempts < 200, "{objects} objects never come to an end");
                }
                assert_eq!(paced.refused, at_once.refused);
                assert_eq!(paced.there, at_once.there);
                assert_eq!(paced.pushes, at_once.pushes, "{pushes} pushes at a time");
            }
        }
    }
}

#[test]
fn what_has_changed_meanwhile_is_tried_anew_and_the_rest_goes_on() {
    let mut world = World::of(16, |number| number == 0 || number == 9);
    // All of them, the first eight, the first four.
    assert!(!world.attempt(3));
    world.want("o000", "better");
    world.want("o016", "bad 16");
    world.want("o017", "good 17");
    world.wanted.remove(&path("o015"));
    let before = world.pushes.len();
    assert!(!world.attempt(1));
    assert_eq!(
        world.pushes[before..],
        [3],
        "what nobody has tried comes first"
    );
    while !world.attempt(1) {}
    let refused = ["o009", "o016"].map(path);
    assert!(world.refused.iter().eq(&refused), "{:?}", world.refused);
    assert_eq!(world.there.len(), 15);
    assert!(world.there.contains_key(&path("o000")));
}

#[test]
fn a_search_ends_with_the_changes_that_it_was_about() {
    let mut world = World::of(8, |number| number == 5);
    assert!(!world.attempt(2));
    for number in 0..8 {
        world.want(&format!("o{number:03}"), &format!("other {number}"));
    }
    let before = world.pushes.len();
    assert!(
        world.attempt(1),
        "all of it is pushed as if nothing had been"
    );
    assert_eq!(world.pushes[before..], [8]);
}

#[test]
fn a_server_that_takes_nothing_is_not_searched_for_ever_however_slowly() {
    for most in [1, 2, UNLIMITED] {
        let mut world = World::of(300, |_| true);
        while !world.attempt(most) {}
        assert!(world.in_vain);
        assert!(world.pushes.len() <= 1 + MOST_IN_VAIN, "{:?}", world.pushes);
    }
}

#[test]
fn a_change_that_was_refused_with_its_author_is_tried_without_in_the_next_attempt() {
    let world = World::of(1, |_| true);
    let mut search = Search::begin(world.parts(), &refusal());
    search.retry_without_author(&refusal());
    let found = search.keep(1);
    let search = Search::go_on(found, &world.parts()).unwrap();
    assert!(
        search
            .next()
            .is_some_and(|(_, without_author)| without_author)
    );
}

#[test]
fn each_destination_goes_on_with_its_own() {
    let world = World::of(4, |number| number == 1);
    let of = |job| Part {
        job,
        share: world.parts().remove(0).share,
    };
    let mut search = Search::begin(vec![of(0), of(1)], &refusal());
    search.refuse(&refusal());
    search.refuse(&refusal());
    assert_eq!(search.left(), BTreeMap::from([(0, 4), (1, 4)]));
    let mut found = search.keep(2);
    // The first one is not written now.
    found.remove(0);
    let search = Search::go_on(found, &[of(0)]).unwrap();
    assert_eq!(search.left(), BTreeMap::from([(0, 4)]));
    assert_eq!(search.open.len(), 1);
}

#[test]
fn changes_that_keep_coming_leave_time_for_what_was_refused_with_others() {
    let mut world = World::of(16, |number| number == 3);
    assert!(!world.attempt(3));
    for round in 0..40 {
        world.want("busy", &format!("good {round} again"));
        world.attempt(1);
    }
    assert_eq!(world.there.len(), 16, "all but one, and the busy one");
    assert!(world.refused.iter().eq(&[path("o003")]));
}

#[test]
fn a_server_that_takes_nothing_any_more_refuses_no_objects_for_what_they_are() {
    for most in [1, UNLIMITED] {
        let mut world = World::of(1000, |number| number == 999);
        assert!(!world.attempt(4));
        assert!(!world.there.is_empty(), "some have passed");
        let before = world.pushes.len();
        world.closed = true;
        while !world.attempt(most) {}
        assert!(world.in_vain && !world.about_objects);
        assert!(world.pushes.len() <= before + MOST_SINCE_ONE_PASSED);
    }
}

#[test]
fn many_that_are_refused_beside_one_another_are_found_where_others_have_passed() {
    let mut world = World::of(100, |number| number >= 60);
    while !world.attempt(3) {}
    assert_eq!((world.there.len(), world.refused.len()), (60, 40));
    assert!(world.about_objects && !world.in_vain);
}
