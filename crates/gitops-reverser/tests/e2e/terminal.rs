//! The commands for a person at a terminal: the real binary, a real control plane, real repositories.

mod bad_input;
mod credentials;
mod demo;
mod help;
mod history;
mod interruptions;
mod mirror;
mod picture;
mod restore;
mod status;
mod verify;
mod world;
