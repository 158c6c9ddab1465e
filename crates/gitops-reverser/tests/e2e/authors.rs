//! Who did it: a real API server asks the real webhook, and the remote's history tells.

mod cascades;
mod crowd;
mod cruel;
mod names;
mod real_names;
mod refused;
mod restarts;
mod scenarios;
mod stage;
