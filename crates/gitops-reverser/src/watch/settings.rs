use std::time::Duration;

/// Deadlines and limits of lists and watches.
#[derive(Clone, Debug)]
pub struct WatchSettings {
    /// How many lists run at once, over all scopes (`--watch-max-concurrent-lists`). Each may hold a
    /// page in memory.
    pub concurrent_lists: usize,
    /// How many objects the first page of a list has; 500 is what kubectl asks for.
    pub page_limit: u32,
    /// How many bytes the pages after it are to have, up to eight times as many objects; nothing means
    /// that all have as many as the first. Fewer and larger pages cost the server less.
    pub page_bytes: Option<usize>,
    /// A page or an event that is larger is not taken into memory; a page is asked for again with
    /// fewer objects. One object is at most 1.5 megabytes, unless etcd was told otherwise.
    pub max_bytes: usize,
    /// A page must be there in this time. The server itself gives up after 60 s.
    pub page_deadline: Duration,
    /// A watch must be answered in this time; its first event may come any time later.
    pub response_deadline: Duration,
    /// Whether lists may be streamed where the server can.
    pub streaming_lists: bool,
    /// Whether pages are asked for first, and a stream only where the server forgets a list before all
    /// of its pages are read. A stream costs the server more than large pages do.
    pub pages_first: bool,
    /// A streamed list must go on in this time. The server waits at most 3 s for its own memory to
    /// catch up, and then sends without a pause.
    pub streaming_silence: Duration,
    /// A streamed list must be complete in this time, not counting that in which nobody took its
    /// objects. Servers that ignore the wish for a list send live events only, for ever.
    pub streaming_deadline: Duration,
    /// How long the server is asked to keep a watch; a little less or more, so that not all of them
    /// end at once.
    pub watch_timeout: Duration,
    /// How much later than that a watch is ended from here.
    pub watch_grace: Duration,
    /// A watch without a byte in this time is taken for dead. Bookmarks come each minute.
    pub watch_silence: Duration,
    /// A watch that lived this long is not one that failed at its start.
    pub watch_proven: Duration,
    /// After so many failures in a row from the same version the scope is listed again.
    pub watch_failures: u32,
    /// So often a list is tried before a failure that may pass counts as a loss. Whoever follows is told
    /// at once, and again when it is over; whoever looks only once would take it for the end.
    pub list_tries: u32,
    /// The first wait after a failure; it doubles with each one that follows.
    pub backoff_first: Duration,
    /// The longest wait after a failure, also where the server asks for a longer one.
    pub backoff_longest: Duration,
}

impl WatchSettings {
    /// For whoever reads whole clusters: of 10,000 objects the server spends a third less on pages of two
    /// megabytes than on pages of 500 objects, and half of what a stream costs it.
    #[must_use]
    pub fn large_pages() -> Self {
        Self {
            page_bytes: Some(2 << 20),
            pages_first: true,
            ..Self::default()
        }
    }
}

impl Default for WatchSettings {
    fn default() -> Self {
        Self {
            concurrent_lists: 50,
            page_limit: 500,
            page_bytes: None,
            max_bytes: 16 * 1024 * 1024,
            page_deadline: Duration::from_mins(1),
            response_deadline: Duration::from_secs(30),
            streaming_lists: true,
            pages_first: false,
            streaming_silence: Duration::from_secs(15),
            streaming_deadline: Duration::from_mins(2),
            watch_timeout: Duration::from_secs(290),
            watch_grace: Duration::from_secs(15),
            watch_silence: Duration::from_secs(90),
            watch_proven: Duration::from_secs(10),
            watch_failures: 3,
            list_tries: 1,
            backoff_first: Duration::from_millis(500),
            backoff_longest: Duration::from_secs(30),
        }
    }
}
