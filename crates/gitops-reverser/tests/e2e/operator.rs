//! The operator on a real control plane and a real Git repository: scenarios as users live them.

mod basics;
mod installation;
mod reporting;
mod secrets;
