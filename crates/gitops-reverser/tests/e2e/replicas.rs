//! Several replicas, several installations: the real program as processes on one real control plane.

mod authors;
mod front;
mod history;
mod leader;
mod load;
mod rolling;
mod stage;
