//! Reserved bytes for memory that outlives requests and threads.

use std::sync::Arc;

use super::Budget;

/// Divisor of the budget: such memory is reserved only while less than this part is in use, so that
/// it does not shorten what requests in progress need.
const PART: usize = 2;

/// Reserved bytes of the memory budget, returned when dropped, on any thread.
#[derive(Debug)]
pub(crate) struct SharedReservation {
    budget: Arc<Budget>,
    bytes: usize,
}

impl SharedReservation {
    /// Creates an empty reservation.
    pub(crate) fn new(budget: &Arc<Budget>) -> Self {
        Self { budget: budget.clone(), bytes: 0 }
    }

    /// Returns the reserved bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Resizes the reservation to `bytes`. Returns false, without a change, if more are in use than
    /// such memory may take.
    #[must_use]
    pub(crate) fn try_hold(&mut self, bytes: usize) -> bool {
        let Some(more) = bytes.checked_sub(self.bytes) else {
            self.budget.give_back(self.bytes - bytes);
            self.bytes = bytes;
            return true;
        };
        let fits = self.budget.taken().saturating_add(more) <= self.budget.limit() / PART;
        if fits && self.budget.take(more) {
            self.bytes = bytes;
            return true;
        }
        false
    }
}

impl Drop for SharedReservation {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_half_of_the_budget_is_reserved_and_all_of_it_returned() {
        let budget = Budget::new(1000);
        let mut one = SharedReservation::new(&budget);
        assert!(one.try_hold(300) && !one.try_hold(501));
        assert_eq!((one.bytes(), budget.taken()), (300, 300));
        let mut other = SharedReservation::new(&budget);
        assert!(!other.try_hold(201) && other.try_hold(200));
        assert!(one.try_hold(100) && other.try_hold(400));
        assert_eq!(budget.taken(), 500);
        drop(one);
        std::thread::spawn(move || drop(other)).join().unwrap();
        assert_eq!(budget.taken(), 0);
    }
}
