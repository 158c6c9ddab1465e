//! What the tests of GitOps Reverser stand on: a real control plane, real Git servers, faults.
//!
//! Nothing here is mocked. What a test starts ends with the test process, however that ends, and
//! says on failure what it saw.

/// Conditions that are awaited: what, how long, and what was seen last.
pub mod wait;
/// Commands that say on failure what was run, where, and what it printed.
pub mod command;
/// Programs that users have and the control plane has not: helm, kubeconform.
pub mod tools;
/// No test file is forgotten in the list of its test binary.
pub mod test_list;
/// Folders that go with the test process, and stay when a test failed.
pub mod scratch;
/// Ports that stay ours while a server restarts, among parallel test binaries too.
pub mod ports;
/// Programs that end with the test process, and can be paused, killed and started again.
pub mod process;
/// The wall clock of one process, which can be made to jump.
pub mod wall_clock;
/// A certificate authority for servers on the loopback.
pub mod certificates;
/// A real etcd, kube-apiserver and, if wanted, kube-controller-manager.
pub mod control_plane;
/// A proxy in front of an API server that makes answers go wrong.
pub mod fault_proxy;
/// Real Git servers: HTTP(S) with faults, SSH, the git protocol, bare repositories.
pub mod git_server;
/// A real Redis, or Valkey.
pub mod redis_server;
/// What a Service does with connections.
pub mod service;
