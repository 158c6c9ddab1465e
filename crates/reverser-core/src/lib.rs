//! The pure heart of GitOps Reverser: from a live Kubernetes object to the file that Git holds.
//!
//! No runtime, no client, no file system, no clock: everything here is a function of its input, so
//! that two replicas, two restarts and two versions of the API server that mean the same write the
//! same bytes.

// The modules stand in the order of the data's way.

/// A tree of plain data whose maps are sorted and whose strings are borrowed where they can be.
pub mod value;
/// JSON text to values, with a limit on depth and a refusal of duplicate keys.
pub mod json_read;
/// YAML text to values, read as `kubectl` would read it.
pub mod yaml_read;
/// A live object: a value with an API version, a kind and a name, and who set which field.
pub mod object;
/// Which object it is: group, version, resource, namespace, name.
pub mod object_key;
/// What the cluster serves: every type that can be listed and watched.
pub mod catalogue;
/// Selectors of labels.
pub mod labels;
/// Which types a rule means, and which of their objects.
pub mod selection;
/// Objects that no person wrote, each told by a named rule.
pub mod noise;
/// The rules that make a live object a manifest that a person could have written.
pub mod canon;
/// What a destination leaves out of its files on top of that.
pub mod ignore;
/// Secrets without their values.
pub mod redaction;
/// Secrets as people may be shown them.
pub mod masking;
/// Values to YAML that every reader reads alike.
pub mod manifest_yaml;
/// Where an object's file lives, in both directions.
pub mod repo_path;
/// The folder of a branch that a destination owns.
pub mod base_folder;
/// The id that Git gives to a file's content.
pub mod blob_id;
/// Who tried what, as admission tells it.
pub mod admission_record;
/// Whose change it is that the watch has shown.
pub mod attribution;
/// What is known about a type in a namespace: everything, or not everything.
pub mod scope;
/// Which types nobody defines any more.
pub mod definitions;
/// What a branch needs to become equal to the cluster.
pub mod plan;
/// The changes since the last push, and the commits that they become.
pub mod transition_log;
/// When a batch of changes is written.
pub mod window;
/// How users of the cluster are called in Git.
pub mod author;
/// What commits say.
pub mod commit_message;
/// The file by which a folder says whose it is.
pub mod owner_marker;
