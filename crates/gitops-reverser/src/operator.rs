//! The operator: every part, and the one loop that connects them.
//!
//! Whatever happens anywhere arrives here as a message; the dispatcher says what follows, and this
//! loop does it. Nothing here decides anything else.

mod authors;
mod cluster;
mod discovering;
mod ends;
mod everywhere;
mod observing;
mod parts;
mod probing;
mod redacting;
mod relisting;
mod settings;
mod standing_by;
mod writers;

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use reverser_core::object_key::TypeKey;
use reverser_git::GitUnusable;
use tokio::sync::{mpsc, watch};

use self::authors::Authors;
use self::cluster::cure_of;
use self::discovering::Served;
use self::ends::Clients;
pub use self::ends::{AccessTo, Ends, StartWriter, WriterStart};
use self::everywhere::{Everywhere, Next};
pub use self::observing::Progress;
pub use self::parts::Parts;
use self::probing::Probes;
pub use self::redacting::{KeySource, installation_key, key_of_operator};
use self::relisting::Relisting;
pub use self::settings::OperatorSettings;
pub use self::standing_by::{BranchTurns, Replicas};
use self::standing_by::{Election, Turn};
use self::writers::Writers;
use crate::admission::Watched;
use crate::attribution::Attribution;
use crate::configuration::Trouble;
use crate::dispatch::{Dispatcher, Effect};
use crate::http::Readiness;
use crate::routing::{Configuration, Refusal, Routing};
use crate::status::{StatusWriter, Statuses};
use crate::telemetry::Telemetry;
use crate::telemetry::facts::{ObjectsUnreadable, WorkLeftBehind};
use crate::watch::{LossReason, Observation, Observed, Scope, SupervisorError, WatchSupervisor};
use crate::writer::{Common, FromWriter, Told};

/// So many observations wait for the loop; then the watches wait, and with them the API server.
const OBSERVATIONS: usize = 1024;

/// So many observations are taken before what follows from them is done.
const AT_ONCE: usize = 64;

/// How soon statuses that could not be written are tried again.
const STATUS_RETRY: Duration = Duration::from_secs(5);

/// How often the loop goes round when nothing happens.
const ROUND: Duration = Duration::from_secs(10);

/// So long writers may take to push what waits when the process is to end; pods are given 30 s.
const LAST_WORDS: Duration = Duration::from_secs(20);

/// So long a push that is cut off may take to be gone.
pub(crate) const CUT_OFF: Duration = Duration::from_secs(2);

/// What a pod is given to end, in which all of the above has to happen.
const GRACE_PERIOD: Duration = Duration::from_secs(30);
const _: () = assert!(
    LAST_WORDS.as_secs() + CUT_OFF.as_secs() + standing_by::RELEASE.as_secs()
        < GRACE_PERIOD.as_secs()
);

/// Why the operator cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum OperatorError {
    /// The cluster cannot be told from others.
    #[error(
        "the namespace kube-system, which tells this cluster from others, cannot be read: {0}{cure}",
        cure = cure_of(.0)
    )]
    ClusterIdentity(#[source] kube::Error),
    /// What was known is not true of it.
    #[error(
        "the API server is that of another cluster now: the namespace kube-system has another uid; \
         ending, so that nothing is taken for gone that lives elsewhere"
    )]
    AnotherCluster,
    /// No usable git.
    #[error(transparent)]
    Git(#[from] GitUnusable),
    /// No client.
    #[error("the API server cannot be used: {0}")]
    Client(#[source] kube::Error),
    /// A watch broke down.
    #[error(transparent)]
    Watch(#[from] SupervisorError),
    /// A part ended that must not.
    #[error("{0} ended unexpectedly")]
    Ended(&'static str),
    /// Another replica may lead by now.
    #[error("leadership is lost: {0}; ending, so that only one replica writes")]
    LeadershipLost(String),
}

/// Runs the installed operator until it is told to end, then writes what is waiting. Whoever hears of
/// attempts to change something tells `attribution`.
pub async fn run(
    config: kube::Config,
    settings: OperatorSettings,
    attribution: Attribution,
    telemetry: Telemetry,
    readiness: watch::Sender<Readiness>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), OperatorError> {
    let clients = Clients::new(&config).map_err(OperatorError::Client)?;
    let trouble = Trouble::new(telemetry.clone(), readiness.clone());
    let ends = Ends::of_installation(&clients, &settings, attribution, trouble, telemetry.clone());
    run_between(ends, config, settings, telemetry, readiness, shutdown).await
}

/// The same between ends of the caller's choice.
pub async fn run_between(
    ends: Ends,
    config: kube::Config,
    settings: OperatorSettings,
    telemetry: Telemetry,
    readiness: watch::Sender<Readiness>,
    shutdown: impl Future<Output = ()>,
) -> Result<(), OperatorError> {
    let Ends {
        configuration,
        statuses,
        writers,
        probes,
        redaction,
        attribution,
        namespaces_first,
        progress,
        mut parts,
    } = ends;
    let client = crate::api_read::following(&config).map_err(OperatorError::Client)?;
    let lease_client = crate::api_read::client(config.clone()).map_err(OperatorError::Client)?;
    let watch_client = crate::watch::client(config).map_err(OperatorError::Client)?;
    let (observed_tx, observed) = mpsc::channel(OBSERVATIONS);
    let (served_tx, served) = watch::channel(None);
    let election = Election::stand(&settings, lease_client, &telemetry, &mut parts);
    let common = Common::new(
        telemetry.clone(),
        observing::type_names(served.clone()),
        settings.workers_max_global,
        settings.workers_max_per_repo,
    );
    let common = common.with_attribution(attribution.clone());
    let common = Arc::new(common.with_leases(election.branch_leases(&settings)));
    observing::show_state(&telemetry, &common, progress.clone());
    // Without a limit: a writer that had to wait here for the loop, while the loop waits for that
    // writer to take a change, would wait for ever. Only news is reported.
    let (reports_tx, reports) = mpsc::unbounded_channel();
    if let Some(name) = settings.attribution.author_map.clone() {
        let (client, common, telemetry) = (client.clone(), common.clone(), telemetry.clone());
        let tell = move |authors| common.set_authors(authors);
        parts.spawn(
            "the follower of authors' names",
            crate::attribution::follow_author_map(client, name, telemetry, tell),
        );
    }
    parts.spawn(
        "the follower of types",
        discovering::follow(
            client.clone(),
            watch_client.clone(),
            settings.discovery_refresh,
            telemetry.clone(),
            served_tx,
        ),
    );
    parts.spawn(
        "the probe of readiness",
        standing_by::say_when_ready(configuration.clone(), served.clone(), readiness),
    );
    let mut shutdown = std::pin::pin!(shutdown);
    if let Turn::End = election.turn(&mut parts, shutdown.as_mut()).await? {
        election.give_back().await;
        return Ok(());
    }
    election.show_presence(&settings, &mut parts);
    // One replica says what the API server asks; all of them may answer.
    let authors = match &settings.admission {
        Some(admission) => {
            Authors::register(client, admission, &attribution, &telemetry, &mut parts)
        }
        None => Authors::unknown(),
    };
    let store_trouble = attribution.store_trouble();
    let mut operator = Operator {
        dispatcher: Dispatcher::new(settings.noise.clone(), attribution),
        supervisor: WatchSupervisor::new(watch_client, settings.watch.clone(), observed_tx),
        writers: Writers::new(writers, common, reports_tx),
        probes: Probes::new(probes, &settings),
        routing: Arc::default(),
        configuration: Arc::default(),
        configured: false,
        served: Served::default(),
        namespaces_first,
        one_by_one: HashSet::new(),
        everywhere: Everywhere::new(settings.discovery_refresh),
        relisting: Relisting::new(settings.discovery_refresh),
        statuses,
        telemetry,
        progress,
        authors,
        redaction: redacting::Redaction::new(redaction),
        knowledge_changed: false,
        settings,
    };
    let inputs = Inputs {
        observed,
        configuration,
        served,
        reports,
        store_trouble,
    };
    let result = operator.work(inputs, &mut parts, shutdown).await;
    operator.end(result.is_ok()).await;
    if result.is_ok() {
        election.give_back().await;
    }
    result
}

/// Everything that can happen.
struct Inputs {
    observed: mpsc::Receiver<Observed>,
    configuration: watch::Receiver<Option<Arc<Configuration>>>,
    served: watch::Receiver<Option<Served>>,
    reports: mpsc::UnboundedReceiver<FromWriter>,
    store_trouble: watch::Receiver<Option<String>>,
}

struct Operator {
    settings: OperatorSettings,
    dispatcher: Dispatcher,
    supervisor: WatchSupervisor,
    writers: Writers,
    probes: Probes,
    configuration: Arc<Configuration>,
    /// Whether our own objects were listed.
    configured: bool,
    served: Served,
    routing: Arc<Routing>,
    namespaces_first: bool,
    /// Types that may not, or need not, be watched everywhere.
    one_by_one: HashSet<TypeKey>,
    everywhere: Everywhere,
    relisting: Relisting,
    statuses: watch::Sender<Statuses>,
    telemetry: Telemetry,
    progress: Arc<Progress>,
    authors: Authors,
    redaction: redacting::Redaction,
    /// Whether less or more may be known of the types of rules than was told.
    knowledge_changed: bool,
}

impl Operator {
    async fn work(
        &mut self,
        mut inputs: Inputs,
        parts: &mut Parts,
        mut shutdown: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<(), OperatorError> {
        let mut rounds = tokio::time::interval(ROUND);
        // It may be down since before this replica leads.
        inputs.store_trouble.mark_changed();
        loop {
            self.progress.round();
            tokio::select! {
                () = &mut shutdown => return Ok(()),
                Some(observed) = inputs.observed.recv() => {
                    self.observe_all(observed, &mut inputs.observed).await;
                }
                Ok(()) = inputs.configuration.changed() => {
                    let configuration = inputs.configuration.borrow_and_update().clone();
                    if let Some(configuration) = configuration {
                        if configuration.installation != self.configuration.installation {
                            self.start_anew().await;
                        }
                        self.configuration = configuration;
                        self.configured = true;
                        self.route().await;
                    }
                }
                Ok(()) = inputs.served.changed() => {
                    let served = inputs.served.borrow_and_update().clone();
                    if let Some(served) = served {
                        self.serve(served).await;
                    }
                }
                // A quiet loop shows that it goes round.
                _ = rounds.tick() => {
                    self.writers.end_unused(Instant::now());
                    self.list_partly_read_again();
                    if self.redaction.is_missing() {
                        self.route().await;
                    }
                }
                next = self.everywhere.next() => match next {
                    Next::Ask => self.ask_for_everywhere(),
                    Next::Allowed(type_key) => {
                        self.one_by_one.remove(&type_key);
                        self.watch_what_is_needed().await;
                        self.tell_scopes();
                    }
                },
                Ok(()) = inputs.store_trouble.changed() => {
                    let trouble = inputs.store_trouble.borrow_and_update().clone();
                    self.statuses.send_if_modified(|statuses| {
                        let news = statuses.store_trouble != trouble;
                        statuses.store_trouble = trouble;
                        news
                    });
                }
                Some(report) = inputs.reports.recv() => self.hear(report).await,
                (id, answer) = self.probes.next() => {
                    self.statuses.send_if_modified(|statuses| {
                        let known = statuses.probed.insert(id, answer.clone());
                        known != Some(answer)
                    });
                }
                error = self.supervisor.broken() => return Err(error.into()),
                () = self.writers.ended() => {
                    return Err(OperatorError::Ended("the writer of a branch"));
                }
                error = parts.ended() => return Err(error),
            }
        }
    }

    /// Has written what waits, as long as that takes no longer than a pod is given. Whoever `may` not
    /// write any more cuts off what is under way.
    async fn end(&mut self, may: bool) {
        if may {
            let written = tokio::time::timeout(LAST_WORDS, self.writers.finish()).await;
            if written.is_ok() {
                return;
            }
            self.telemetry.emit(WorkLeftBehind);
        }
        self.settings.cut_off.cancel();
        let _ = tokio::time::timeout(CUT_OFF, self.writers.finish()).await;
    }

    /// Takes what was seen, and what else was seen by now; then does what follows. A writer that is
    /// woken for each object of a list would cost more than the object.
    async fn observe_all(&mut self, first: Observed, more: &mut mpsc::Receiver<Observed>) {
        let mut follows = Vec::new();
        self.observe(first, &mut follows).await;
        for _ in 1..AT_ONCE {
            let Ok(observed) = more.try_recv() else { break };
            self.observe(observed, &mut follows).await;
        }
        self.act_in_order(&mut follows).await;
        if self.knowledge_changed {
            self.tell_scopes();
        }
    }

    /// Tells what is not known of the types of rules.
    fn tell_scopes(&mut self) {
        self.knowledge_changed = false;
        let scopes = self.dispatcher.rule_scopes();
        self.statuses.send_if_modified(|statuses| {
            let news = statuses.scopes != scopes;
            statuses.scopes = scopes;
            news
        });
    }

    async fn act_in_order(&mut self, follows: &mut Vec<(Vec<Effect>, Option<Instant>)>) {
        for (effects, since) in follows.drain(..) {
            self.act_since(effects, since).await;
        }
    }

    async fn observe(
        &mut self,
        observed: Observed,
        follows: &mut Vec<(Vec<Effect>, Option<Instant>)>,
    ) {
        let Observed {
            scope,
            epoch,
            at,
            observation,
        } = observed;
        // A watch that was stopped may still have spoken. What is gone stays gone, whoever saw it.
        let is_current = self.supervisor.epoch_of(&scope) == Some(epoch);
        if !is_current && !matches!(observation, Observation::Gone { .. }) {
            return;
        }
        observing::note(
            &self.telemetry,
            &self.served.catalogue,
            &scope,
            &observation,
        );
        self.progress.note(&observation);
        let forbidden = matches!(
            &observation,
            Observation::Lost {
                reason: LossReason::Forbidden,
                ..
            }
        );
        let live = matches!(
            &observation,
            Observation::Seen { live: true, .. } | Observation::Gone { .. }
        );
        if forbidden && scope.namespace.is_none() && self.one_by_one.insert(scope.type_key.clone())
        {
            self.act_in_order(follows).await;
            // Where namespaces can be listed one by one, nothing is lost yet.
            self.watch_what_is_needed().await;
            self.knowledge_changed = true;
            if self.supervisor.epoch_of(&scope).is_none() {
                return;
            }
        }
        let changes_knowledge = matches!(
            &observation,
            Observation::Lost { .. } | Observation::Listed(_)
        );
        let expired = matches!(
            &observation,
            Observation::Lost {
                reason: LossReason::Expired,
                ..
            }
        );
        // A list follows at once where a watch has expired: what it finds is told, or why it fails.
        let is_brief = expired && self.dispatcher.knows(&scope);
        let effects = self.dispatcher.observe(&scope, observation);
        let unreadable = |effect: &Effect| matches!(effect, Effect::Unreadable(..));
        if changes_knowledge || effects.iter().any(unreadable) {
            self.knowledge_changed |= !is_brief;
            self.progress.set_unknown(self.dispatcher.unknown_scopes());
        }
        follows.push((effects, live.then_some(at)));
    }

    /// Takes what the cluster serves now. A definition that changed may change what its objects look
    /// like without a new version of any of them, so they are listed again.
    async fn serve(&mut self, served: Served) {
        let old = std::mem::replace(&mut self.served, served);
        self.dispatcher.define(self.served.definitions.clone());
        self.route().await;
        let redefined: Vec<TypeKey> = self
            .routing
            .needs
            .keys()
            .filter(|key| {
                let name = (key.group().to_owned(), key.resource().to_owned());
                let before = old.generations.get(&name);
                before.is_some() && before != self.served.generations.get(&name)
            })
            .cloned()
            .collect();
        for type_key in redefined {
            self.list_again(&type_key);
        }
    }

    /// Our own definitions were gone meanwhile: nothing that was known before proves anything.
    async fn start_anew(&mut self) {
        let effects = self.dispatcher.start_anew();
        self.act(effects).await;
        let _ = self.supervisor.set_scopes(&HashSet::new());
        self.one_by_one.clear();
    }

    /// Nothing is routed before both are known: what is not known yet is not absent.
    async fn route(&mut self) {
        if self.served.catalogue.is_empty() || !self.configured {
            return;
        }
        let catalogue = self.served.catalogue.clone();
        let mut routing = Routing::of(&self.configuration, &catalogue, &self.settings.routing);
        if self.settings.enabled
            && let Some(key) = self.redaction.prepare(&mut routing).await
        {
            self.dispatcher.redact_with(key);
        }
        self.routing = Arc::new(routing);
        if self.namespaces_first {
            let needs = self.routing.needs.iter();
            let few = needs.filter(|(_, need)| need.namespaces.is_some());
            self.one_by_one.extend(few.map(|(key, _)| key.clone()));
        }
        if !self.settings.enabled {
            let (configuration, routing) = (self.configuration.clone(), self.routing.clone());
            self.statuses.send_modify(|statuses| {
                statuses.configuration = configuration;
                statuses.routing = routing;
                statuses.disabled = Some(ingestion_disabled());
            });
            return;
        }
        let namespaces = Arc::new(self.configuration.namespaces.clone());
        self.authors.watch(Watched::of(&self.routing, &namespaces));
        let effects = self.dispatcher.route(&self.routing, namespaces, |key| {
            catalogue.get(key).is_some()
        });
        self.act(effects).await;
        self.watch_what_is_needed().await;
        self.progress.set_unknown(self.dispatcher.unknown_scopes());
        let (configuration, routing) = (self.configuration.clone(), self.routing.clone());
        let (rounds, scopes) = (self.dispatcher.rounds(), self.dispatcher.rule_scopes());
        let asked = self.probes.ask(probing::unused(&configuration, &routing));
        self.statuses.send_modify(|statuses| {
            statuses.rounds = rounds;
            statuses.scopes = scopes;
            // Of those that are written to the writers tell, once they have been there.
            statuses
                .probed
                .retain(|id, _| routing.repos.contains_key(id) && !asked.contains(id));
            statuses
                .reports
                .retain(|id, _| routing.destinations.contains_key(id));
            statuses.configuration = configuration;
            statuses.routing = routing;
        });
    }

    /// Rights may have been granted since.
    fn ask_for_everywhere(&mut self) {
        if self.namespaces_first {
            return;
        }
        for need in self.routing.needs.values() {
            let type_key = need.served.key.clone();
            if !self.one_by_one.contains(&type_key) {
                continue;
            }
            let scope = Scope {
                type_key: type_key.clone(),
                kind: need.served.kind.clone(),
                namespace: None,
            };
            self.everywhere.ask(type_key, self.supervisor.ask(&scope));
        }
    }

    async fn watch_what_is_needed(&mut self) {
        let scopes = self.dispatcher.scopes(&self.one_by_one);
        let types: HashSet<&TypeKey> = scopes.iter().map(|scope| &scope.type_key).collect();
        self.progress.set_watched(types.len(), scopes.len());
        let changes = self.supervisor.set_scopes(&scopes);
        for (scope, _) in changes.stopped {
            let effects = self.dispatcher.stop_watching(&scope);
            self.act(effects).await;
        }
        let effects = self.dispatcher.watch(&scopes);
        self.act(effects).await;
    }

    async fn act(&mut self, effects: Vec<Effect>) {
        self.act_since(effects, None).await;
    }

    /// Does what follows, where a watch event is the cause since this moment.
    async fn act_since(&mut self, effects: Vec<Effect>, since: Option<Instant>) {
        for effect in effects {
            match effect {
                Effect::Writer(target, id, message) => {
                    let told = Told { id, message, since };
                    self.writers.tell(&target, told).await;
                }
                Effect::ListAgain(type_key) => self.list_again(&type_key),
                Effect::ListSoon(type_key) => self.relisting.hurry(&type_key, Instant::now()),
                Effect::Unreadable(scope, sentence) => self.telemetry.emit(ObjectsUnreadable {
                    type_key: &scope.type_key,
                    sentence: &sentence,
                }),
            }
        }
    }

    fn list_partly_read_again(&mut self) {
        let partly_read = self.dispatcher.partly_read();
        for type_key in self.relisting.due(partly_read, Instant::now()) {
            self.list_again(&type_key);
        }
    }

    fn list_again(&mut self, type_key: &TypeKey) {
        let scopes: Vec<Scope> = self
            .dispatcher
            .scopes(&self.one_by_one)
            .into_iter()
            .filter(|scope| scope.type_key == *type_key)
            .collect();
        for scope in scopes {
            self.supervisor.restart(&scope);
        }
    }

    async fn hear(&mut self, report: FromWriter) {
        match report {
            FromWriter::Report(id, report) => {
                self.statuses.send_modify(|statuses| {
                    statuses.reports.insert(id, *report);
                });
            }
            FromWriter::ContentMissing(id) => {
                let effects = self.dispatcher.send_again(&id);
                self.act(effects).await;
            }
        }
    }
}

fn ingestion_disabled() -> Refusal {
    Refusal {
        reason: reverser_api::conditions::reason::INGESTION_DISABLED,
        message: "the operator runs with --enable-watch-ingestion=false: nothing is watched or \
                  written"
            .to_owned(),
    }
}

/// Writes statuses as they change; many changes at once are one.
async fn write_statuses(mut writer: StatusWriter, mut statuses: watch::Receiver<Statuses>) {
    while statuses.changed().await.is_ok() {
        let mut written = false;
        while !written {
            let now = statuses.borrow_and_update().clone();
            written = writer.write(&now, &Time(jiff::Timestamp::now())).await;
            tokio::time::sleep(Duration::from_millis(100)).await;
            if !written {
                // What could not be written is not told again by anybody.
                let news = tokio::time::timeout(STATUS_RETRY, statuses.changed());
                if let Ok(Err(_)) = news.await {
                    return;
                }
            }
        }
    }
}
