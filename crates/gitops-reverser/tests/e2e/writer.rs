//! The writer of a branch against real repositories: what it is told becomes commits.

mod authors;
mod batches;
mod bench;
mod deletions;
mod faults;
mod refused;
mod shared;
