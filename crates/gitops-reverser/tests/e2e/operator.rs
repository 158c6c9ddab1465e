//! The operator on a real control plane and a real Git repository: scenarios as users live them.

mod access;
mod api_faults;
mod awkward;
mod basics;
mod batching;
mod cluster_rules;
mod conversion;
pub(crate) mod custom_resources;
mod deletions;
mod destinations;
mod ending;
pub(crate) mod installation;
mod installations;
mod many;
mod outages;
mod ownership;
pub(crate) mod oracle;
mod repository;
mod rights;
mod selection;
mod storms;
mod uninstalling;
mod reporting;
mod secrecy;
mod secrets;
mod unreadable;
