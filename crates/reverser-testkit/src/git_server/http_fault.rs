//! What can go wrong with an HTTP server, on purpose.

use std::time::Duration;

/// Which requests a fault is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Request {
    /// Every request.
    Any,
    /// The look at the refs before a fetch.
    FetchRefs,
    /// The look at the refs before a push.
    PushRefs,
    /// A fetch.
    Fetch,
    /// A push: the pack itself, not the empty one that git sends ahead of a large one.
    Push,
}

impl Request {
    pub(super) fn matches(self, path: &str, query: &str, body_len: usize) -> bool {
        let refs = path.ends_with("/info/refs");
        match self {
            Self::Any => true,
            Self::FetchRefs => refs && query.contains("git-upload-pack"),
            Self::PushRefs => refs && query.contains("git-receive-pack"),
            Self::Fetch => path.ends_with("/git-upload-pack"),
            Self::Push => path.ends_with("/git-receive-pack") && body_len > 4,
        }
    }
}

/// What happens instead of an answer.
#[derive(Debug, Clone)]
pub enum Fault {
    /// Nothing is ever answered; the connection stays open.
    Hang,
    /// This status, with no content.
    Status(u16),
    /// A permanent redirect to the same path below this URL.
    Redirect(String),
    /// The request is not passed on, and the connection is closed.
    DropRequest,
    /// The request is passed on, and after so many bytes of the answer the connection is closed.
    CutAnswer(usize),
    /// The answer comes after this time.
    Delay(Duration),
    /// The answer comes at this many bytes a second.
    Slow(usize),
}

/// A fault that is waiting for its requests.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) request: Request,
    pub(super) fault: Fault,
    /// How often it still happens.
    pub(super) times: usize,
}
