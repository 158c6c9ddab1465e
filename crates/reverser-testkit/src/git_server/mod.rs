//! Real Git servers, on every transport that a repository is reached by, and the faults that they
//! can be made to have.
//!
//! All of them check what they are sent (`receive.fsckObjects`), and none depends on the
//! configuration of the machine.

/// A bare repository, what others do to it, and the oracles about it.
pub mod repository;
/// `git http-backend` behind a small server that can be made to misbehave.
pub mod http_front;
/// Which faults the HTTP front has, and when.
pub mod http_fault;
/// OpenSSH, on a port of its own with keys of its own.
pub mod sshd;
/// `git daemon`.
pub mod daemon;

mod http_message;

pub use daemon::GitDaemon;
pub use http_fault::{Fault, Request};
pub use http_front::{HttpFront, HttpOptions};
pub use repository::{BareRepository, FileChange, sealed_git};
pub use sshd::Sshd;
