//! The webhook, asked by a real API server over TLS.

mod faults;
mod registering;
pub(crate) mod webhook;
