//! Deflate with one state for many objects: setting one up costs more than a small object.

use flate2::{Compress, Compression, FlushCompress, Status};
use std::io;

/// Fast rather than small: the objects live here for a while, and `git push` sends them as they are.
const LEVEL: u32 = 1;

pub(super) struct Deflater {
    state: Compress,
    out: Vec<u8>,
}

impl Deflater {
    pub(super) fn new() -> Self {
        Self {
            state: Compress::new(Compression::new(LEVEL), true),
            out: Vec::new(),
        }
    }

    /// The parts, compressed as one stream.
    pub(super) fn deflate(&mut self, parts: &[&[u8]]) -> io::Result<&[u8]> {
        self.state.reset();
        self.out.clear();
        for (index, part) in parts.iter().enumerate() {
            let last = index + 1 == parts.len();
            self.feed(
                part,
                if last {
                    FlushCompress::Finish
                } else {
                    FlushCompress::None
                },
            )?;
        }
        Ok(&self.out)
    }

    fn feed(&mut self, part: &[u8], flush: FlushCompress) -> io::Result<()> {
        let start = self.state.total_in();
        let finish = matches!(flush, FlushCompress::Finish);
        loop {
            let done = usize::try_from(self.state.total_in() - start).map_err(io::Error::other)?;
            let rest = &part[done..];
            if rest.is_empty() && !finish {
                return Ok(());
            }
            self.out.reserve(rest.len() / 2 + 64);
            let status = self
                .state
                .compress_vec(rest, &mut self.out, flush)
                .map_err(io::Error::other)?;
            if status == Status::StreamEnd {
                return Ok(());
            }
        }
    }
}
