use std::io::{BufWriter, Write as _};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use reverser_testkit::git_server::{BareRepository, HttpFront, sealed_git};

use crate::objects;
use crate::world::World;

/// Each floor is taken so often, and what can be repeated beside it; the best counts.
pub(crate) const ROUNDS: usize = 3;

pub(crate) struct FirstMirror {
    pub(crate) list: Duration,
    pub(crate) import: Duration,
    pub(crate) push: Duration,
}

impl FirstMirror {
    pub(crate) fn total(&self) -> Duration {
        self.list + self.import + self.push
    }
}

/// All pages of a list.
pub(crate) async fn pages(world: &World, list: &str) -> Vec<String> {
    let mut pages = Vec::new();
    let mut token: Option<String> = None;
    loop {
        let page = world.page(list, token.as_deref()).await;
        token = next_page(&page);
        pages.push(page);
        if token.is_none() {
            return pages;
        }
    }
}

/// The token stands at the beginning of a page; reading the rest is no part of the floor.
fn next_page(page: &str) -> Option<String> {
    let head = &page[..page.find("\"items\"").unwrap_or(page.len())];
    let (_, rest) = head.split_once("\"continue\":\"")?;
    let (token, _) = rest.split_once('"')?;
    (!token.is_empty()).then(|| token.to_owned())
}

/// Every object as the API server gives it, page by page, and nothing done with it.
pub(crate) fn list(world: &World) -> Duration {
    best(|| {
        let start = Instant::now();
        world.runtime.block_on(async {
            for list in objects::LISTS {
                std::hint::black_box(pages(world, list).await);
            }
        });
        start.elapsed()
    })
}

/// The list, `git fast-import` of the same files, and `git push` of them to a server of its own.
pub(crate) fn first_mirror(world: &World) -> FirstMirror {
    let list = list(world);
    let files = world.files();
    let mut import = Duration::MAX;
    let mut push = Duration::MAX;
    for _ in 0..ROUNDS {
        let folder = tempfile::tempdir().unwrap();
        let local = BareRepository::create(folder.path(), "local.git");
        let _remote = BareRepository::create(folder.path(), "remote.git");
        let front = HttpFront::start(folder.path());
        let start = Instant::now();
        fast_import(
            &mut sealed_git(local.path()),
            "",
            files
                .iter()
                .map(|(path, text)| (path.as_str(), text.as_str())),
        );
        import = import.min(start.elapsed());
        let start = Instant::now();
        local.git(&["push", "--quiet", &front.url("remote.git"), "main"]);
        push = push.min(start.elapsed());
    }
    FirstMirror { list, import, push }
}

/// `git push` of a commit that is made already, sorted. It goes to a branch of its own.
pub(crate) fn pushes_of_one_change(world: &World) -> Vec<Duration> {
    let folder = tempfile::tempdir().unwrap();
    let url = world.front.url("repo.git");
    let mut clone = sealed_git(folder.path());
    clone.args(["clone", "--quiet", "--bare", &url, "local.git"]);
    assert!(clone.status().unwrap().success());
    let local = folder.path().join("local.git");
    let mut times: Vec<Duration> = (0..10)
        .map(|round| {
            let text = format!("round: {round}\n");
            let file = [("floor.yaml", text.as_str())];
            fast_import(&mut sealed_git(&local), "from refs/heads/main^0\n", file);
            let start = Instant::now();
            let mut push = sealed_git(&local);
            push.args(["push", "--quiet", "origin", "main:floor"]);
            assert!(push.status().unwrap().success());
            start.elapsed()
        })
        .collect();
    world.repository.set_branch("floor", None);
    times.sort();
    times
}

fn fast_import<'a>(
    git: &mut Command,
    from: &str,
    files: impl IntoIterator<Item = (&'a str, &'a str)>,
) {
    let mut child = git
        .args(["fast-import", "--quiet", "--force"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut stream = BufWriter::new(child.stdin.take().unwrap());
    write!(
        stream,
        "commit refs/heads/main\ncommitter A <a@b> 1 +0000\ndata 5\nfloor\n{from}"
    )
    .unwrap();
    for (path, text) in files {
        let size = text.len();
        writeln!(stream, "M 100644 inline {path}\ndata {size}\n{text}").unwrap();
    }
    drop(stream);
    assert!(child.wait().unwrap().success());
}

fn best(mut once: impl FnMut() -> Duration) -> Duration {
    (0..ROUNDS).map(|_| once()).min().unwrap_or_default()
}
