//! The webhook, asked by a real API server over TLS.

mod registering;
mod webhook;
