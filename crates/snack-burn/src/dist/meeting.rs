//! Where the threads of a group meet.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use burn::tensor::TensorData;

use super::DistError;

/// What a rank brings to a meeting.
#[derive(Debug)]
pub(super) enum Message {
    Bytes(Vec<u8>),
    Tensors(Vec<TensorData>),
}

/// A barrier at which every rank leaves a message for all others, and which a rank that ends breaks.
#[derive(Debug)]
pub(super) struct Meeting {
    ranks: usize,
    patience: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Meetings held.
    held: u64,
    /// What the ranks have brought to the next one.
    brought: Vec<Option<(&'static str, Message)>>,
    /// The newest one, as everybody sees it.
    newest: Option<Arc<Vec<Message>>>,
    /// Why there will be no other.
    broken: Option<DistError>,
}

impl Meeting {
    pub fn new(ranks: usize, patience: Duration) -> Self {
        let brought = (0..ranks).map(|_| None).collect();
        Self {
            ranks,
            patience,
            state: Mutex::new(State {
                brought,
                ..State::default()
            }),
            changed: Condvar::new(),
        }
    }

    pub fn ranks(&self) -> usize {
        self.ranks
    }

    /// Leaves a message, waits for the others, and returns all in the order of ranks.
    pub fn exchange(
        &self,
        rank: usize,
        operation: &'static str,
        message: Message,
    ) -> Result<Arc<Vec<Message>>, DistError> {
        let mut state = self.lock();
        if let Some(error) = &state.broken {
            return Err(error.clone());
        }
        let this = state.held;
        state.brought[rank] = Some((operation, message));
        if state.brought.iter().all(Option::is_some) {
            let brought: Vec<_> = state.brought.iter_mut().filter_map(Option::take).collect();
            let expected = brought[0].0;
            let other = brought.iter().position(|(found, _)| *found != expected);
            if let Some(rank) = other {
                let found = brought[rank].0;
                return Err(self.break_up(
                    state,
                    DistError::OperationMismatch {
                        rank,
                        expected,
                        found,
                    },
                ));
            }
            let messages = brought.into_iter().map(|(_, message)| message);
            state.newest = Some(Arc::new(messages.collect()));
            state.held += 1;
            self.changed.notify_all();
        }
        let deadline = Instant::now() + self.patience;
        loop {
            // No later meeting can end before this rank has come to it.
            if state.held != this
                && let Some(newest) = &state.newest
            {
                return Ok(newest.clone());
            }
            if let Some(error) = &state.broken {
                return Err(error.clone());
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let missing = (0..self.ranks).filter(|&rank| state.brought[rank].is_none());
                let missing = missing.collect();
                return Err(self.break_up(
                    state,
                    DistError::TimedOut {
                        waiting: rank,
                        operation,
                        missing,
                        waited: self.patience,
                    },
                ));
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// There will be no other meeting, because this rank will not come.
    pub fn leave(&self, rank: usize, reason: &str) {
        let lost = DistError::RankLost {
            rank,
            ranks: self.ranks,
            reason: reason.to_string(),
        };
        self.break_up(self.lock(), lost);
    }

    /// The first reason counts.
    fn break_up(&self, mut state: MutexGuard<'_, State>, error: DistError) -> DistError {
        state.broken.get_or_insert_with(|| error.clone());
        self.changed.notify_all();
        error
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    const LONG: Duration = Duration::from_secs(60);

    fn bytes(messages: &[Message]) -> Vec<Vec<u8>> {
        let bytes = messages.iter().map(|message| match message {
            Message::Bytes(bytes) => bytes.clone(),
            Message::Tensors(_) => panic!("only bytes were brought"),
        });
        bytes.collect()
    }

    #[test]
    fn everybody_sees_every_message_of_every_meeting() {
        let meeting = Meeting::new(3, LONG);
        thread::scope(|scope| {
            for rank in 0..3 {
                let meeting = &meeting;
                scope.spawn(move || {
                    for round in 0..200u8 {
                        let message = Message::Bytes(vec![rank as u8, round]);
                        let found = meeting.exchange(rank, "test", message).unwrap();
                        assert_eq!(bytes(&found), [[0, round], [1, round], [2, round]]);
                    }
                });
            }
        });
    }

    #[test]
    fn who_waits_hears_of_who_leaves() {
        let meeting = Meeting::new(2, LONG);
        let message = || Message::Bytes(Vec::new());
        let error = thread::scope(|scope| {
            let waiting = scope.spawn(|| meeting.exchange(0, "test", message()).unwrap_err());
            meeting.leave(1, "it is tired");
            waiting.join().unwrap()
        });
        assert_eq!(
            error.to_string(),
            "rank 1 of 2 has left the group (it is tired); continue from the last checkpoint"
        );
        assert_eq!(meeting.exchange(0, "test", message()).unwrap_err(), error);
    }

    #[test]
    fn patience_ends() {
        let meeting = Meeting::new(3, Duration::from_millis(20));
        let error = meeting.exchange(1, "test", Message::Bytes(Vec::new()));
        assert_eq!(
            error.unwrap_err(),
            DistError::TimedOut {
                waiting: 1,
                operation: "test",
                missing: vec![0, 2],
                waited: Duration::from_millis(20),
            }
        );
    }

    #[test]
    fn different_operations_do_not_meet() {
        let meeting = Meeting::new(2, LONG);
        let errors = thread::scope(|scope| {
            let operations = ["gather", "reduce"];
            let threads: Vec<_> = (0..2)
                .map(|rank| {
                    let meeting = &meeting;
                    let message = Message::Bytes(Vec::new());
                    scope.spawn(move || meeting.exchange(rank, operations[rank], message))
                })
                .collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap().unwrap_err())
                .collect::<Vec<_>>()
        });
        let expected = DistError::OperationMismatch {
            rank: 1,
            expected: "gather",
            found: "reduce",
        };
        assert_eq!(errors, [expected.clone(), expected]);
    }
}
