//! The webhook, asked by a real API server over TLS.

mod by_service;
mod caller;
mod faults;
mod forged;
mod registering;
mod rotation;
pub(crate) mod webhook;
