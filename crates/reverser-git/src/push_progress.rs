//! How far a push is, for a person who watches.

use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;

/// How much of a push has been sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PushProgress {
    /// So many objects of Git were sent.
    pub sent: u64,
    /// Of so many.
    pub of: u64,
    /// How much that was, as git writes it (`1.20 MiB`); nothing before there is anything to tell.
    pub size: Option<String>,
}

/// Hears how far pushes are.
#[derive(Clone)]
pub struct PushListener(Arc<dyn Fn(PushProgress) + Send + Sync>);

impl PushListener {
    /// Calls this for every step.
    pub fn new(hear: impl Fn(PushProgress) + Send + Sync + 'static) -> Self {
        Self(Arc::new(hear))
    }
}

impl fmt::Debug for PushListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PushListener")
    }
}

/// What git says beside it; nobody needs it afterwards.
const OTHER_STEPS: &[&str] = &[
    "Enumerating objects: ",
    "Counting objects: ",
    "Delta compression using ",
    "Compressing objects: ",
    "Total ",
];

/// Reads one line of progress.
fn parse(line: &str) -> Option<PushProgress> {
    let rest = line.trim().strip_prefix("Writing objects:")?;
    let (_, rest) = rest.split_once('(')?;
    let (counts, rest) = rest.split_once(')')?;
    let (sent, of) = counts.split_once('/')?;
    let size = rest.strip_prefix(", ").and_then(|rest| {
        let size = rest.split([',', '|']).next()?.trim();
        size.starts_with(|first: char| first.is_ascii_digit())
            .then(|| size.to_owned())
    });
    Some(PushProgress {
        sent: sent.parse().ok()?,
        of: of.parse().ok()?,
        size,
    })
}

/// What a push says, without its progress, which somebody hears instead.
pub(crate) struct WithoutProgress<R> {
    inner: R,
    listener: PushListener,
    /// A line that has not ended.
    line: Vec<u8>,
    ready: Vec<u8>,
    ended: bool,
}

impl<R> WithoutProgress<R> {
    pub(crate) fn new(inner: R, listener: PushListener) -> Self {
        Self {
            inner,
            listener,
            line: Vec::new(),
            ready: Vec::new(),
            ended: false,
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.line.push(byte);
            if matches!(byte, b'\r' | b'\n') {
                self.end_line();
            }
        }
    }

    fn end_line(&mut self) {
        let text = String::from_utf8_lossy(&self.line);
        if let Some(progress) = parse(&text) {
            (self.listener.0)(progress);
        } else if !OTHER_STEPS.iter().any(|step| text.starts_with(step)) {
            self.ready.extend_from_slice(&self.line);
        }
        self.line.clear();
    }
}

impl<R: Read> Read for WithoutProgress<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let mut chunk = [0; 4096];
        while self.ready.is_empty() && !self.ended {
            match self.inner.read(&mut chunk)? {
                0 => {
                    self.ended = true;
                    self.end_line();
                }
                length => self.take(&chunk[..length]),
            }
        }
        let length = self.ready.len().min(out.len());
        out[..length].copy_from_slice(&self.ready[..length]);
        self.ready.drain(..length);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// As git 2.47 writes it.
    const SAID: &str = "Enumerating objects: 5, done.\nCounting objects:  50% (1/2)\r\
        Counting objects: 100% (2/2), done.\nDelta compression using up to 2 threads\n\
        Compressing objects: 100% (2/2), done.\nWriting objects:  33% (1/3)\r\
        Writing objects:  66% (2/3), 1.20 MiB | 2.40 MiB/s\r\
        Writing objects: 100% (3/3), 264 bytes | 264.00 KiB/s, done.\n\
        Total 3 (delta 0), reused 0 (delta 0), pack-reused 0\n\
        remote: no pushes on Fridays\nerror: failed to push some refs";

    #[test]
    fn progress_is_heard_and_everything_else_is_kept() {
        let heard = Arc::new(Mutex::new(Vec::new()));
        let kept_by_listener = heard.clone();
        let listener = PushListener::new(move |progress: PushProgress| {
            kept_by_listener.lock().unwrap().push(progress);
        });
        let mut kept = String::new();
        let mut said = WithoutProgress::new(SAID.as_bytes(), listener);
        said.read_to_string(&mut kept).unwrap();
        assert_eq!(
            kept,
            "remote: no pushes on Fridays\nerror: failed to push some refs"
        );
        let heard = heard.lock().unwrap();
        let steps: Vec<_> = heard.iter().map(|step| (step.sent, step.of)).collect();
        assert_eq!(steps, [(1, 3), (2, 3), (3, 3)]);
        let sizes: Vec<_> = heard.iter().map(|step| step.size.as_deref()).collect();
        assert_eq!(sizes, [None, Some("1.20 MiB"), Some("264 bytes")]);
    }

    #[test]
    fn what_is_no_progress_is_not_taken_for_it() {
        for line in [
            "",
            "Total 3 (delta 0)",
            "Writing objects:",
            "Writing objects: 10% (x/y)",
            "remote: Writing objects: 1% (1/100)",
        ] {
            assert_eq!(parse(line), None, "{line}");
        }
    }
}
