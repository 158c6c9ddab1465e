//! The tasks of the operator: one that ends or panics ends the process, never only itself.

use std::collections::HashMap;

use tokio::task::{Id, JoinSet};

use super::OperatorError;

/// What runs beside the operator's loop.
#[derive(Default)]
pub struct Parts {
    tasks: JoinSet<Option<OperatorError>>,
    names: HashMap<Id, &'static str>,
}

impl Parts {
    /// Starts a part that is not to end.
    pub fn spawn(&mut self, name: &'static str, part: impl Future<Output = ()> + Send + 'static) {
        self.spawn_ending(name, async {
            part.await;
            None
        });
    }

    /// Starts a part that says why it ends, if it knows better than anybody else.
    pub(super) fn spawn_ending(
        &mut self,
        name: &'static str,
        part: impl Future<Output = Option<OperatorError>> + Send + 'static,
    ) {
        let task = self.tasks.spawn(part);
        self.names.insert(task.id(), name);
    }

    /// Waits until a part has ended, and says why the process cannot go on.
    pub(super) async fn ended(&mut self) -> OperatorError {
        let Some(ended) = self.tasks.join_next_with_id().await else {
            return std::future::pending().await;
        };
        let (id, why) = match ended {
            Ok((id, why)) => (id, why),
            Err(error) => (error.id(), None),
        };
        let name = self.names.get(&id).copied().unwrap_or("a part");
        why.unwrap_or(OperatorError::Ended(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_part_that_ends_or_panics_is_named() {
        let mut parts = Parts::default();
        parts.spawn("the sleeper", std::future::pending());
        parts.spawn("the quitter", async {});
        let sentence = parts.ended().await.to_string();
        assert_eq!(sentence, "the quitter ended unexpectedly");
        parts.spawn("the panicker", async { panic!("its values stay here") });
        let sentence = parts.ended().await.to_string();
        assert_eq!(sentence, "the panicker ended unexpectedly");
        parts.spawn_ending("the election", async {
            Some(OperatorError::LeadershipLost("because".to_owned()))
        });
        let sentence = parts.ended().await.to_string();
        assert!(sentence.starts_with("leadership is lost: because"));
    }
}
