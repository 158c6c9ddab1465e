//! Objects of the clone: written here, read through gix.
//!
//! A few objects are written loose, many as one pack: a loose object costs a file, a pack costs
//! every later command a look at its index.

mod read;
mod loose;
mod pack;
mod sink;
mod zlib;

pub(crate) use pack::object_ids as pack_object_ids;
pub(crate) use read::{ObjectStore, ReadError, damaged, entries};
pub(crate) use sink::ObjectSink;
