//! Several replicas, several installations: the real program as processes on one real control plane.

mod history;
mod leader;
mod load;
mod stage;
