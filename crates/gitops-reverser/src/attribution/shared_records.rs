//! Records that all replicas share, in Redis or Valkey, so that a new leader knows who did what shortly
//! before.
//!
//! Each replica writes what its webhook learns to one stream, and reads what the others wrote into its
//! own memory, where it is joined with changes as ever.
//!
//! ## Guarantees
//! - A question of the API server waits for the store no longer than [`LONGEST_WAIT_FOR_STORE`], and
//!   not at all while the store is known not to answer.
//! - What the store holds is sealed: it tells nobody anything, and nobody else can add to it.
//! - Where the store is down, slow or full, changes that another replica heard of have no author;
//!   nothing else suffers.

/// What the store says and is told, as bytes: pure.
mod resp;
/// One connection.
mod connection;
/// Where the store is.
mod address;
/// Records that only the installation can read.
mod sealed;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::future::BoxFuture;
use reverser_core::admission_record::AdmissionRecord;
use reverser_core::redaction::RedactionKey;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};

pub use self::address::{BadStore, StoreAddress};
use self::connection::{Connection, StoreError};
use self::resp::Reply;
use self::sealed::Sealer;
use super::{Attribution, Kept, TakeRecords};
use crate::telemetry::Telemetry;
use crate::telemetry::facts::{
    RecordNotShared, RecordStoreFailed, RecordStoreWorks, RecordUnreadable,
};

/// So long the answer to the API server waits until the store has a record, so that a replica that is
/// killed right after its answer takes no name with it. A store nearby needs a millisecond.
pub const LONGEST_WAIT_FOR_STORE: Duration = Duration::from_millis(20);

/// So many records wait for the store; more are not shared. Ten seconds of a busy cluster.
const WAITING: usize = 4096;
/// So many are sent at once.
const TOGETHER: usize = 256;
/// How long an answer may take before the connection is given up.
const DEADLINE: Duration = Duration::from_secs(2);
/// How long the reader waits for something new.
const BLOCK: Duration = Duration::from_secs(5);
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Gives the key of the installation, or says why it cannot be had.
pub type InstallationKey =
    Box<dyn Fn() -> BoxFuture<'static, Result<RedactionKey, String>> + Send + Sync>;

/// What is shared, and with whom.
pub struct Sharing {
    /// Where the store is.
    pub address: StoreAddress,
    /// The installation whose replicas share.
    pub instance_id: String,
    /// By what records are sealed.
    pub key: InstallationKey,
    /// How long a record may name a change.
    pub ttl: Duration,
    /// How many records are kept at most.
    pub max_entries: usize,
}

/// Takes records for this replica and for all others.
pub struct SharedRecords {
    local: Attribution,
    queue: mpsc::Sender<Waiting>,
    answers: Arc<AtomicBool>,
    telemetry: Telemetry,
}

/// A record on its way to the store, and who is told when it is there.
struct Waiting {
    record: AdmissionRecord,
    kept: oneshot::Sender<()>,
}

/// The stream of an installation, seen by one replica.
struct Stream {
    sharing: Sharing,
    key: String,
    /// Tells what this process wrote from what others did.
    process: String,
    local: Attribution,
    /// Whether it is worth waiting for the store.
    answers: Arc<AtomicBool>,
    /// What does not work, of writing and of reading.
    failures: Mutex<[Option<String>; 2]>,
    telemetry: Telemetry,
}

/// One of the two ways.
#[derive(Clone, Copy)]
enum Way {
    Write,
    Read,
}

/// Shares records: gives what takes those that are learnt here, and what has to run for that.
pub fn share(
    sharing: Sharing,
    local: Attribution,
    telemetry: Telemetry,
) -> (SharedRecords, impl Future<Output = ()> + Send + 'static) {
    let (queue, inbox) = mpsc::channel(WAITING);
    let answers = Arc::new(AtomicBool::new(false));
    let records = SharedRecords {
        local: local.clone(),
        queue,
        answers: answers.clone(),
        telemetry: telemetry.clone(),
    };
    let stream = Stream {
        key: format!("gitops-reverser:records:{}", sharing.instance_id),
        process: format!("{:032x}", fastrand::u128(..)),
        sharing,
        local,
        answers,
        failures: Mutex::default(),
        telemetry,
    };
    let run = async move {
        tokio::join!(stream.write(inbox), stream.read());
    };
    (records, run)
}

impl TakeRecords for SharedRecords {
    fn take(&self, record: AdmissionRecord) -> Option<Kept> {
        let (told, kept) = oneshot::channel();
        let waiting = Waiting {
            record: record.clone(),
            kept: told,
        };
        let queued = self.queue.try_send(waiting);
        self.local.record(record);
        match queued {
            Ok(()) => {
                let worth_waiting = self.answers.load(Ordering::Relaxed);
                worth_waiting.then(|| Kept::new(kept, self.answers.clone()))
            }
            Err(TrySendError::Full(_)) => {
                self.telemetry.emit(RecordNotShared);
                None
            }
            // The process ends.
            Err(TrySendError::Closed(_)) => None,
        }
    }
}

impl Stream {
    /// Writes what is learnt here, until nobody learns any more.
    async fn write(&self, mut inbox: mpsc::Receiver<Waiting>) {
        let mut unconfirmed = Vec::new();
        let mut pause = FIRST_PAUSE;
        loop {
            let failure = match self.open().await {
                Ok((mut connection, sealer)) => {
                    pause = FIRST_PAUSE;
                    let end = self.write_on(&mut connection, &sealer, &mut inbox, &mut unconfirmed);
                    match end.await {
                        Some(error) => error,
                        None => return,
                    }
                }
                Err(error) => error,
            };
            self.failed(Way::Write, &failure);
            pause = rest(pause).await;
        }
    }

    /// Why it could not go on; nothing if there is nothing more to write. What is not confirmed stays
    /// with the caller: written twice, it says the same.
    async fn write_on(
        &self,
        connection: &mut Connection,
        sealer: &Sealer,
        inbox: &mut mpsc::Receiver<Waiting>,
        unconfirmed: &mut Vec<Waiting>,
    ) -> Option<StoreError> {
        let key = self.key.as_bytes();
        let limit = self.sharing.max_entries.to_string();
        let life = (self.sharing.ttl * 2).as_millis().to_string();
        let mut oldest = String::from("0-0");
        loop {
            let contents: Vec<Vec<u8>> = unconfirmed
                .iter()
                .filter_map(|waiting| sealer.seal(&waiting.record))
                .collect();
            let additions: Vec<[&[u8]; 10]> = contents
                .iter()
                .map(|content| {
                    let process = sealer.process().as_bytes();
                    let limit = limit.as_bytes();
                    [
                        b"XADD", key, b"MAXLEN", b"~", limit, b"*", b"p", process, b"r", content,
                    ]
                })
                .collect();
            // What is too old names nothing any more, and says for nothing who did what.
            let trim: &[&[u8]] = &[b"XTRIM", key, b"MINID", oldest.as_bytes()];
            let expire: &[&[u8]] = &[b"PEXPIRE", key, life.as_bytes()];
            let mut commands: Vec<&[&[u8]]> = additions.iter().map(|words| &words[..]).collect();
            commands.extend([trim, expire]);
            match connection.ask(&commands, DEADLINE).await {
                Ok(replies) => {
                    self.works(Way::Write);
                    let last = additions
                        .len()
                        .checked_sub(1)
                        .and_then(|at| replies.get(at));
                    if let Some(id) = last.and_then(Reply::as_text) {
                        oldest = id_before(time_of(id), self.sharing.ttl);
                    }
                }
                Err(error) => return Some(error),
            }
            for Waiting { kept, .. } in unconfirmed.drain(..) {
                // Who no longer waits need not hear it.
                let _ = kept.send(());
            }
            // A connection that nobody uses may break unnoticed: it is used now and then.
            let some = inbox.recv_many(unconfirmed, TOGETHER);
            if tokio::time::timeout(BLOCK, some).await == Ok(0) {
                return None;
            }
        }
    }

    /// Reads what others write, for ever.
    async fn read(&self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let failure = match self.open().await {
                Ok((mut connection, sealer)) => {
                    pause = FIRST_PAUSE;
                    self.read_on(&mut connection, &sealer).await
                }
                Err(error) => error,
            };
            self.failed(Way::Read, &failure);
            pause = rest(pause).await;
        }
    }

    /// Why it could not go on. It begins with all that may still name something: what is read twice
    /// says the same.
    async fn read_on(&self, connection: &mut Connection, sealer: &Sealer) -> StoreError {
        let began = match now(connection).await {
            Ok(now) => now,
            Err(error) => return error,
        };
        let mut last = id_before(began, self.sharing.ttl);
        self.works(Way::Read);
        let block = BLOCK.as_millis().to_string();
        loop {
            let command: &[&[u8]] = &[
                b"XREAD",
                b"BLOCK",
                block.as_bytes(),
                b"COUNT",
                b"512",
                b"STREAMS",
                self.key.as_bytes(),
                last.as_bytes(),
            ];
            let replies = match connection.ask(&[command], BLOCK + DEADLINE).await {
                Ok(replies) => replies,
                Err(error) => return error,
            };
            for (id, entry) in replies.iter().flat_map(entries) {
                id.clone_into(&mut last);
                let age = Duration::from_millis(began.saturating_sub(time_of(id)));
                match entry {
                    Some((process, _)) if process == self.process => {}
                    Some((process, content)) => match sealer.open(process, content) {
                        Some(record) => self.local.record_of_age(record, age),
                        None => self.telemetry.emit(RecordUnreadable),
                    },
                    None => self.telemetry.emit(RecordUnreadable),
                }
            }
        }
    }

    async fn open(&self) -> Result<(Connection, Sealer), StoreError> {
        let key = (self.sharing.key)().await.map_err(StoreError::Unusable)?;
        let sealer = Sealer::new(key, &self.sharing.instance_id, &self.process);
        let connection = Connection::open(&self.sharing.address, DEADLINE).await?;
        Ok((connection, sealer))
    }

    fn failed(&self, way: Way, error: &StoreError) {
        if matches!(way, Way::Write) {
            self.answers.store(false, Ordering::Relaxed);
        }
        let reason = format!("{}: {error}", self.sharing.address);
        let news = self.note(way, Some(&reason));
        self.telemetry.emit(RecordStoreFailed {
            reason: &reason,
            news,
        });
    }

    fn works(&self, way: Way) {
        if matches!(way, Way::Write) {
            self.answers.store(true, Ordering::Relaxed);
        }
        if self.note(way, None) {
            self.telemetry.emit(RecordStoreWorks {
                store: &self.sharing.address,
            });
        }
    }

    /// Tells whether it was not known before.
    fn note(&self, way: Way, failure: Option<&str>) -> bool {
        let mut failures = self.failures.lock().unwrap_or_else(PoisonError::into_inner);
        let known = &mut failures[way as usize];
        let news = known.as_deref() != failure;
        *known = failure.map(str::to_owned);
        let any = failures.iter().flatten().next().cloned();
        self.local.set_store_trouble(any);
        news
    }
}

/// Waits a while, and tells how long to wait the next time.
async fn rest(pause: Duration) -> Duration {
    tokio::time::sleep(pause.mul_f64(0.8 + 0.4 * fastrand::f64())).await;
    (pause * 2).min(LONGEST_PAUSE)
}

/// The time as the store knows it, which names entries by it, in milliseconds.
async fn now(connection: &mut Connection) -> Result<u64, StoreError> {
    let command: &[&[u8]] = &[b"TIME"];
    let time = connection.ask(&[command], DEADLINE).await?;
    let time = time.first().map_or(&[][..], Reply::list);
    let number = |reply: &Reply| reply.as_text()?.parse::<u64>().ok();
    match time {
        [seconds, micros] => number(seconds)
            .zip(number(micros))
            .map(|(seconds, micros)| seconds * 1000 + micros / 1000)
            .ok_or(StoreError::Strange),
        _ => Err(StoreError::Strange),
    }
}

/// When an entry was written: ids are `<milliseconds>-<number>`.
fn time_of(id: &str) -> u64 {
    let milliseconds = id.split_once('-').and_then(|(time, _)| time.parse().ok());
    milliseconds.unwrap_or(0)
}

/// The first id that an entry could have had this time before.
fn id_before(milliseconds: u64, time: Duration) -> String {
    let time = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    format!("{}-0", milliseconds.saturating_sub(time))
}

/// The entries of an answer to XREAD, each with its id; who wrote it and what, if it is ours.
fn entries(reply: &Reply) -> impl Iterator<Item = (&str, Option<(&str, &[u8])>)> {
    let streams = reply.list().iter();
    let entries = streams.flat_map(|stream| stream.list().get(1).map_or(&[][..], Reply::list));
    entries.filter_map(|entry| {
        let [id, fields] = entry.list() else {
            return None;
        };
        let ours = match fields.list() {
            [p, process, r, sealed] if p.as_text() == Some("p") && r.as_text() == Some("r") => {
                process.as_text().zip(sealed.as_bytes())
            }
            _ => None,
        };
        Some((id.as_text()?, ours))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_still_name_something_begins_so_long_before() {
        let minute = Duration::from_mins(1);
        let time = time_of("1700000060123-7");
        assert_eq!(id_before(time, minute), "1700000000123-0");
        assert_eq!(id_before(time_of("5-1"), minute), "0-0");
        assert_eq!(time_of("strange"), 0);
    }
}
