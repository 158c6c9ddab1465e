//! Several replicas, several installations: the real program as processes on one real control plane.

mod asleep;
mod authors;
mod clocks;
mod ending;
mod front;
mod history;
mod leader;
mod load;
mod own_url;
mod pulse;
mod rolling;
mod stage;
