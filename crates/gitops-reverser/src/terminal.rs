//! What commands for a person at a terminal share: which cluster, which repository, which objects,
//! and how things are said.

/// How a command ends when it does not end well.
pub mod exit;
/// The cluster that flags name.
pub mod cluster;
/// The repository that flags name.
pub mod repository;
/// From flags about objects to the configuration that the operator would follow.
pub mod selection;
/// Which file a person means by `deployment/web`.
pub mod object_name;
/// Label selectors as kubectl has them.
mod label_text;
/// The flags of an operator that is installed.
pub mod installed_flags;
/// The key of redacted Secrets, kept on this machine.
mod redaction_key;
/// One run of the operator between a person's own ends.
pub mod pass;
/// Listing and pushing, shown while it happens.
pub mod progress;
/// What a folder lacks and has too much.
pub mod comparison;
/// Questions that are answered with yes or no.
pub mod prompt;
/// Colours, tables, differences, times.
pub mod text;
