//! The test kit, tested: a plane that lies would let every other test lie.

mod users;
