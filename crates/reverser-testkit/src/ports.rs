//! Ports on the loopback for servers that must be told their port.
//!
//! The usual way, to bind port 0 and to give the number away, hands out a port that the kernel may
//! give to the next outgoing connection while our server restarts. These come from below the range
//! that kernels take such ports from, and a locked file keeps each from other test processes for as
//! long as it is held.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, TcpListener};

use crate::scratch;

const FIRST: u16 = 24_000;
const COUNT: u16 = 2_000;

/// A port that no other process of the test kit takes until this is dropped.
#[derive(Debug)]
pub struct Port {
    number: u16,
    /// Held, not read: the kernel unlocks it when the process ends, however it ends.
    _lock: File,
}

impl Port {
    /// Finds a port that is free now.
    pub fn reserve() -> io::Result<Self> {
        let folder = scratch::root()?.join("ports");
        std::fs::create_dir_all(&folder)?;
        // Parallel test binaries begin at different places and seldom meet.
        let start = RandomState::new().hash_one(std::process::id()) % u64::from(COUNT);
        let start = u16::try_from(start).expect("a remainder of COUNT, which is a u16");
        for step in 0..COUNT {
            let number = FIRST + (start + step) % COUNT;
            // The files stay: removing a lock file while others open it would give it away twice.
            let lock = File::create(folder.join(number.to_string()))?;
            if lock.try_lock().is_err() {
                continue;
            }
            // Somebody outside of the test kit may listen there.
            if TcpListener::bind((Ipv4Addr::LOCALHOST, number)).is_ok() {
                return Ok(Self {
                    number,
                    _lock: lock,
                });
            }
        }
        Err(io::Error::other(format!(
            "no free port from {FIRST} to {}",
            FIRST + COUNT - 1
        )))
    }

    /// The number to listen on.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_port_is_given_twice_while_it_is_held() {
        let held: Vec<_> = (0..20).map(|_| Port::reserve().unwrap()).collect();
        let numbers: BTreeSet<_> = held.iter().map(Port::number).collect();
        assert_eq!(numbers.len(), held.len());
    }
}
