//! What is true after every scenario, whatever it was about.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use reverser_core::canon::canonicalise;
use reverser_core::object::Object;
use reverser_core::owner_marker::OWNER_MARKER;
use reverser_core::repo_path::{PathName, RepoPath};
use reverser_testkit::control_plane::User;
use reverser_testkit::wait;
use serde_json::Value;

use super::installation::{Installation, LABEL, soon};

/// An operator that looks at branches more seldom is not waited for.
const SELDOM: Duration = Duration::from_secs(5);
/// How long looks are waited for: an operator whose turn it is not makes none.
const PATIENCE: Duration = Duration::from_secs(10);
/// An operator that has no branch to write for so long has none to look at.
const NO_BRANCH: Duration = Duration::from_secs(3);
/// So many files of a folder are tried on the API server.
const TRIED: usize = 50;
/// Times of commits and objects are told in seconds, and a commit is made after it was decided on.
const SLACK: i64 = 2;

/// The folder of a destination that says it is in sync, with nothing left over in it.
struct InSync {
    branch: String,
    folder: String,
    objects: Value,
    /// Whether some of what the cluster holds is left out of files.
    ignores: bool,
    /// Whether Secrets are written as they are.
    secrets: bool,
}

impl Installation {
    /// Ends a scenario. The branches come to rest, destinations that say they are in sync hold what the
    /// cluster holds, all of it can be applied, no commit took away what was there, and nothing was
    /// left for the end.
    #[track_caller]
    pub(crate) fn finish(mut self) {
        self.come_to_rest();
        self.assert_nothing_was_lost();
        self.assert_nothing_else_was_touched();
        self.end();
    }

    /// The same where objects were let go of and taken back in between.
    #[track_caller]
    pub(crate) fn finish_reselected(mut self) {
        self.come_to_rest();
        self.assert_nothing_else_was_touched();
        self.end();
    }

    #[track_caller]
    fn come_to_rest(&mut self) {
        if self.settings.poll > SELDOM && self.is_running() {
            self.stop();
            self.be_usual();
            self.run();
        }
        soon("branches that come to rest", || {
            let before = self.refs();
            self.await_looks();
            let now = self.refs();
            (now == before).then_some(()).ok_or(now)
        });
        self.assert_sound();
        soon("what is in sync is in Git", || self.look_at_files());
        soon("what is in Git can be applied", || self.try_files());
    }

    #[track_caller]
    fn end(&mut self) {
        let before = self.refs();
        self.stop();
        assert_eq!(self.refs(), before, "nothing was left for the end");
    }

    /// Nothing is left to do: each branch was looked at again, and none has moved.
    #[track_caller]
    pub(crate) fn assert_quiet(&self) {
        let before = self.refs();
        self.await_looks();
        assert_eq!(self.refs(), before, "a quiet cluster makes no commits");
        self.assert_sound();
    }

    /// The same for one folder; others may still be busy.
    #[track_caller]
    pub(crate) fn assert_quiet_in(&self, branch: &str, folder: &str) {
        let commits = || match self.repository.tip(branch) {
            Some(tip) => {
                let count = ["rev-list", "--count", &tip, "--", folder];
                self.repository.git(&count)
            }
            None => String::new(),
        };
        let before = commits();
        self.await_looks();
        assert_eq!(commits(), before, "a quiet cluster makes no commits");
        if !before.is_empty() {
            self.repository.assert_sound(branch);
        }
    }

    /// Where every branch stands.
    fn refs(&self) -> String {
        self.repository.git(&["for-each-ref", "refs/heads"])
    }

    fn branches(&self) -> Vec<String> {
        let listed = ["for-each-ref", "--format=%(refname:short)", "refs/heads"];
        let listed = self.repository.git(&listed);
        listed.lines().map(str::to_owned).collect()
    }

    fn assert_sound(&self) {
        for branch in self.branches() {
            self.repository.assert_sound(&branch);
        }
    }

    /// Waits until the operator has looked at each of its branches from the beginning to the end.
    fn await_looks(&self) {
        let (start, before) = (Instant::now(), self.looks());
        // Of replicas that run elsewhere no looks are seen.
        let patience = if self.settings.poll > SELDOM || !self.is_running() {
            3 * self.settings.limits.quiet
        } else {
            PATIENCE
        };
        // The first that is seen to begin may have been decided on before; when the next one begins,
        // it has ended.
        let _ = wait::until_blocking("two looks", patience, || {
            let (now, branches) = (self.looks(), self.written_branches());
            let count = |looks: &BTreeMap<String, usize>, branch: &String| {
                looks.get(branch).copied().unwrap_or_default()
            };
            let looked = |branch: &String| count(&now, branch) >= count(&before, branch) + 2;
            let no_branch = branches.is_empty() && start.elapsed() > NO_BRANCH;
            no_branch || !branches.is_empty() && branches.iter().all(looked)
        });
    }

    /// The branches that have a writer.
    fn written_branches(&self) -> Vec<String> {
        let scrape = self.scrape();
        let depths = scrape
            .lines()
            .filter(|line| line.starts_with("gitopsreverser_repo_branch_queue_depth{"));
        let branches = depths.filter_map(|line| line.split_once("branch=\"")?.1.split_once('"'));
        branches.map(|(branch, _)| branch.to_owned()).collect()
    }

    /// How often each branch was looked at.
    fn looks(&self) -> BTreeMap<String, usize> {
        let noted = format!("{}.asked", self.settings.work_dir.display());
        let noted = std::fs::read_to_string(noted).unwrap_or_default();
        let mut looks: BTreeMap<String, usize> = BTreeMap::new();
        let mut asked = "";
        for line in noted.lines() {
            let Some((_, rest)) = line.split_once("refs/heads/") else {
                continue;
            };
            let branch = rest.split([':', ' ']).next().unwrap_or_default();
            // Whoever asks and finds something new fetches it in the same look.
            let goes_on = line.starts_with("fetch ") && asked == branch;
            let begins = line.starts_with("fetch ") || line.starts_with("ls-remote ");
            if begins && !goes_on {
                *looks.entry(branch.to_owned()).or_default() += 1;
            }
            asked = if line.starts_with("ls-remote ") {
                branch
            } else {
                ""
            };
        }
        looks
    }

    /// The folders whose destinations say that all is well, and whose rules let nothing stay that is
    /// gone.
    fn in_sync(&self) -> Vec<InSync> {
        let ours = format!("{LABEL}={}", self.namespace);
        let kinds = "gitdestinations,watchrules,clusterwatchrules";
        let listed = self.kubectl(&["get", kinds, "-A", "-l", &ours, "-o", "json"]);
        let mut listed: Value = serde_json::from_str(&listed).unwrap();
        let Value::Array(listed) = listed["items"].take() else {
            panic!("no list: {listed}");
        };
        let (destinations, rules): (Vec<Value>, Vec<Value>) = listed
            .into_iter()
            .partition(|object| object["kind"] == "GitDestination");
        let destinations = destinations.into_iter().filter(|destination| {
            let (metadata, spec) = (&destination["metadata"], &destination["spec"]);
            let refers = |rule: &&Value| {
                let to = &rule["spec"]["destinationRef"];
                let home = rule["metadata"]["namespace"].clone();
                let namespace = to["namespace"].as_str().map_or(home, Value::from);
                to["name"] == metadata["name"] && namespace == metadata["namespace"]
            };
            let follows_all = |rule: &Value| {
                let parts = rule["spec"]["rules"].as_array().into_iter().flatten();
                let operations = parts.filter_map(|part| part["operations"].as_array());
                operations.flatten().all(|operation| operation == "*")
            };
            let known = ["TypesNotServed", "SubresourcesIgnored"];
            let mut rules = rules.iter().filter(refers);
            let all_followed = rules.all(|rule| is_ready(rule, &known) && follows_all(rule));
            let warnings = [
                "SecretsReadable",
                "AuthorRefused",
                "AttributionStoreUnavailable",
            ];
            is_ready(destination, &warnings)
                && destination["status"]["objects"].is_u64()
                && spec["prune"]["mode"]
                    .as_str()
                    .is_none_or(|mode| mode == "Always")
                && all_followed
        });
        let folder = |destination: Value| {
            let spec = &destination["spec"];
            let mode = spec["secrets"]["mode"].as_str();
            let default = format!("{:?}", self.settings.routing.secrets_mode);
            InSync {
                branch: spec["branch"].as_str().unwrap().to_owned(),
                folder: format!("{}/", spec["baseFolder"].as_str().unwrap()),
                objects: destination["status"]["objects"].clone(),
                ignores: !spec["ignore"].is_null(),
                secrets: mode.unwrap_or(&default) == "AsIs",
            }
        };
        destinations.map(folder).collect()
    }

    /// The objects of a folder that holds nothing but what the cluster holds, with the files.
    fn mirrored(&self, folder: &InSync) -> BTreeMap<String, String> {
        let mut files = self.files_of(&folder.branch, &folder.folder);
        files.retain(|path, _| RepoPath::parse(path).is_ok());
        files
    }

    /// Each file is what its object is now.
    fn look_at_files(&self) -> Result<(), String> {
        for folder in self.in_sync() {
            let mut files = self.mirrored(&folder);
            // Of another repository nothing is known here.
            if !files.is_empty() && folder.objects != files.len() {
                let (branch, folder, objects) = (folder.branch, folder.folder, folder.objects);
                let files = files.len();
                return Err(format!(
                    "{folder} of {branch}: {objects} objects, {files} files"
                ));
            }
            files.retain(|path, _| folder.secrets || !path.starts_with("core/v1/secrets/"));
            let requests = files.keys().filter_map(|path| {
                let request = http::Request::get(url_of(path)?);
                Some((path.clone(), request.body(Vec::new()).unwrap()))
            });
            for (path, live) in self.ask(requests.collect()) {
                let live = live.map_err(|error| format!("{path}: {error}"))?;
                let object = Object::from_json(&live, None).unwrap();
                let wanted = canonicalise(object).to_yaml();
                if !folder.ignores && !is_same(&files[&path], &wanted) {
                    return Err(format!("{path}: {}\nwanted: {wanted}", files[&path]));
                }
            }
        }
        Ok(())
    }

    /// The API server takes each file.
    fn try_files(&self) -> Result<(), String> {
        for folder in self.in_sync() {
            let files = self.mirrored(&folder).into_iter();
            let files = files
                .filter(|(path, _)| folder.secrets || !path.starts_with("core/v1/secrets/"))
                .take(TRIED);
            let requests = files.filter_map(|(path, text)| {
                let how = "dryRun=All&fieldManager=oracle&force=true&fieldValidation=Strict";
                let request = http::Request::patch(format!("{}?{how}", url_of(&path)?))
                    .header(http::header::CONTENT_TYPE, "application/apply-patch+yaml");
                Some((path, request.body(text.into_bytes()).unwrap()))
            });
            for (path, answer) in self.ask(requests.collect()) {
                answer.map_err(|error| format!("{path}: {error}"))?;
            }
        }
        Ok(())
    }

    /// No commit of ours took away the file of an object that is still the same, and whose file is
    /// there again.
    #[track_caller]
    fn assert_nothing_was_lost(&self) {
        for branch in self.branches() {
            let shown = ["--name-only", "--format=%x09%ct%x09%cn", &branch];
            let log = ["log", "--no-renames", "--diff-filter=D"];
            let log = self.repository.git(&[&log[..], &shown].concat());
            let there = self.repository.files(&branch);
            let mut commit = ("", 0);
            let mut back = Vec::new();
            for line in log.lines().filter(|line| !line.is_empty()) {
                if let Some((seconds, who)) =
                    line.strip_prefix('\t').and_then(|l| l.split_once('\t'))
                {
                    commit = (who, seconds.parse().unwrap());
                } else if commit.0 != "A Person" && there.contains_key(line) {
                    let parts: Vec<&str> = line.split('/').collect();
                    let ends = (1..parts.len()).map(|from| parts[from..].join("/"));
                    let urls = ends.filter_map(|end| url_of(&end));
                    back.extend(urls.map(|url| (format!("{line} at {}", commit.1), commit.1, url)));
                }
            }
            let times: BTreeMap<String, i64> = back
                .iter()
                .map(|(what, time, _)| (what.clone(), *time))
                .collect();
            let requests = back.into_iter().map(|(what, _, url)| {
                let request = http::Request::get(url).body(Vec::new()).unwrap();
                (what, request)
            });
            for (what, live) in self.ask(requests.collect()) {
                let live: Value =
                    serde_json::from_str(&live.unwrap_or_default()).unwrap_or_default();
                let created = live["metadata"]["creationTimestamp"].as_str();
                let created =
                    created.map(|text| text.parse::<jiff::Timestamp>().unwrap().as_second());
                let existed = created.is_some_and(|created| created + SLACK < times[&what]);
                assert!(
                    !existed,
                    "{branch} lost {what}, which was there since {created:?}"
                );
            }
        }
    }

    /// No commit of ours changes anything but files of objects and markers.
    #[track_caller]
    fn assert_nothing_else_was_touched(&self) {
        for branch in self.branches() {
            let log = [
                "log",
                "--no-renames",
                "--name-only",
                "--format=%x09%cn",
                &branch,
            ];
            let log = self.repository.git(&log);
            let mut committer = "";
            for line in log.lines().filter(|line| !line.is_empty()) {
                if let Some(name) = line.strip_prefix('\t') {
                    committer = name;
                    continue;
                }
                let mut ends =
                    std::iter::successors(Some(line), |end| Some(end.split_once('/')?.1));
                let ours =
                    line.ends_with(OWNER_MARKER) || ends.any(|end| RepoPath::parse(end).is_ok());
                assert!(
                    ours || committer == "A Person",
                    "{committer} changed {line} of {branch}"
                );
            }
        }
    }

    fn ask(
        &self,
        requests: Vec<(String, http::Request<Vec<u8>>)>,
    ) -> Vec<(String, kube::Result<String>)> {
        self.runtime.block_on(async {
            let client = self.plane.client(User::Admin).unwrap();
            let answers = requests.into_iter().map(|(what, request)| {
                let client = client.clone();
                async move { (what, client.request_text(request).await) }
            });
            let answers = futures::stream::iter(answers).buffer_unordered(16);
            answers.collect().await
        })
    }
}

/// Ready, and nothing else is said but what these warnings say.
fn is_ready(object: &Value, warnings: &[&str]) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let current = object["status"]["observedGeneration"] == object["metadata"]["generation"];
    current
        && conditions.is_some_and(|conditions| {
            let is_ready = |one: &Value| one["type"] == "Ready" && one["status"] == "True";
            let known = |one: &Value| warnings.iter().any(|warning| one["type"] == *warning);
            let mut all = conditions.iter();
            conditions.iter().any(is_ready) && all.all(|one| is_ready(one) || known(one))
        })
}

/// Where the object of a file is, unless its path tells no plain name.
fn url_of(path: &str) -> Option<String> {
    let identity = RepoPath::parse(path).ok()?;
    let PathName::Whole(name) = identity.name else {
        return None;
    };
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
    let (group, version) = (identity.type_key.group(), identity.type_key.version());
    let root = if group.is_empty() {
        format!("/api/{version}")
    } else {
        format!("/apis/{group}/{version}")
    };
    let namespace = identity
        .namespace
        .map_or_else(String::new, |namespace| format!("/namespaces/{namespace}"));
    let resource = identity.type_key.resource();
    name.bytes()
        .all(plain)
        .then(|| format!("{root}{namespace}/{resource}/{name}"))
}

/// Whether two files say the same; somebody may have edited the form of one.
fn is_same(one: &str, other: &str) -> bool {
    let read = |text: &str| serde_saphyr::from_str::<Value>(text).ok();
    one == other || read(one).is_some_and(|value| Some(value) == read(other))
}

/// Scenarios after which nobody can be asked: the kinds are uninstalled, or the operator is a program
/// of its own that ends with them.
const END_OTHERWISE: [&str; 2] = ["uninstalling.rs", "secrecy.rs"];

#[test]
fn every_scenario_of_the_operator_ends_with_what_is_always_true() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/operator");
    let files = std::fs::read_dir(folder).unwrap().flatten();
    for file in files.filter(|file| !END_OTHERWISE.iter().any(|name| file.file_name() == *name)) {
        let source = std::fs::read_to_string(file.path()).unwrap();
        // Each ends with a brace of its own line.
        let functions: Vec<&str> = source.split("\n}\n").collect();
        let ends = |function: &str| function.contains(".finish");
        let name = |function: &str| {
            let begin = function.find("\nfn ")? + 4;
            let end = function[begin..].find('(')?;
            Some(function[begin..begin + end].to_owned())
        };
        let helpers = functions.iter().filter(|function| ends(function));
        let helpers: Vec<String> = helpers.filter_map(|function| name(function)).collect();
        for function in functions
            .iter()
            .filter(|function| function.contains("#[test]\nfn "))
        {
            let test = name(function).unwrap();
            let by_helper = helpers
                .iter()
                .any(|helper| *helper != test && function.contains(&format!(" {helper}(")));
            let is_this = test.starts_with("every_scenario_");
            assert!(
                ends(function) || by_helper || is_this,
                "{test} has no finish"
            );
        }
    }
}
