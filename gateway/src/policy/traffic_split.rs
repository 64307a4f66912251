//! Exact distribution of requests by weight: in each round of requests (100 requests, if weights
//! are percentages), each share receives precisely its number of requests.
//!
//! Consecutive requests of a round step through its places by a nearly irrational fraction of the
//! round. Shares thus mix evenly over a few requests, and a draw costs one addition to a counter.
//! Each round has a step and a start of its own, so that clients whose requests arrive in a fixed
//! order do not always get the same share.

use std::sync::atomic::{AtomicU64, Ordering};

/// Fractions of a round used as steps. They are badly approximated by small fractions, even after
/// rounding to a round of 100 or 1,000 places.
const STEPS: [f64; 6] = [
    0.414_213_562_37, // √2 - 1
    0.585_786_437_63,
    0.732_050_807_57, // √3 - 1
    0.267_949_192_43,
    0.723_606_797_75, // (5 + √5) / 10
    0.276_393_202_25,
];

/// Maximum length of a round. Shares with a longer common round are rounded to it.
const LONGEST: u64 = 1 << 32;

/// A distribution of requests.
#[derive(Debug)]
pub struct TrafficSplit {
    /// End of each share in a round; the first share starts at 0. Places after the last end belong
    /// to no share.
    ends: Box<[u64]>,
    /// Number of requests in a round.
    round: u64,
    /// Coprime with the round, so that a round visits each place once.
    steps: [u64; STEPS.len()],
    /// Number of requests so far.
    turn: AtomicU64,
    seed: u64,
}

impl TrafficSplit {
    /// Creates a distribution from pairs of weight and total; a total of 0 counts as 1. If the sum
    /// exceeds the whole, the later shares are reduced.
    pub fn new(shares: impl ExactSizeIterator<Item = (u32, u32)> + Clone) -> Self {
        let whole = |total: u32| u64::from(total.max(1));
        let common = shares.clone().fold(1, |common, (_, total)| common_multiple(common, whole(total)));
        let round = common.min(LONGEST);
        let mut end = 0;
        let ends = shares.map(|(weight, total)| {
            let share = u128::from(weight) * u128::from(round) / u128::from(whole(total));
            end = u64::try_from(share).unwrap_or(round).saturating_add(end).min(round);
            end
        });
        let ends = ends.collect();
        Self {
            ends,
            round,
            steps: STEPS.map(|part| step(part, round)),
            turn: AtomicU64::new(0),
            seed: fastrand::u64(..),
        }
    }

    /// Draws the share for the next request; `None` if no share receives it.
    pub fn draw(&self) -> Option<usize> {
        match self.ends.last().copied().unwrap_or(0) {
            0 => return None,
            // The final state of most canaries.
            all if all == self.round && self.ends.len() == 1 => return Some(0),
            _ => {}
        }
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let place = self.place(turn / self.round, turn % self.round);
        let share = self.ends.partition_point(|end| *end <= place);
        (share < self.ends.len()).then_some(share)
    }

    /// Returns the place of a request in its round.
    fn place(&self, round: u64, turn: u64) -> u64 {
        let bits = mix(self.seed.wrapping_add(round));
        let step = self.steps[bits as usize % self.steps.len()];
        let begin = (bits >> 8) % self.round;
        let place = (u128::from(turn) * u128::from(step) + u128::from(begin)) % u128::from(self.round);
        place as u64
    }
}

/// Returns the step nearest to the fraction `part` of a round that visits all places.
fn step(part: f64, round: u64) -> u64 {
    let wanted = ((part * round as f64) as u64).max(1);
    let mut near = (0..round).flat_map(|off| [wanted + off, wanted.saturating_sub(off)]);
    near.find(|step| *step > 0 && divisor(*step, round) == 1).unwrap_or(1)
}

fn common_multiple(one: u64, other: u64) -> u64 {
    (one / divisor(one, other)).saturating_mul(other)
}

/// Returns the greatest common divisor.
fn divisor(mut one: u64, mut other: u64) -> u64 {
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one
}

/// Returns pseudo-random bits for a number (SplitMix64).
fn mix(number: u64) -> u64 {
    let bits = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn counts(split: &TrafficSplit, draws: usize) -> Vec<usize> {
        let mut counts = vec![0; split.ends.len() + 1];
        for _ in 0..draws {
            counts[split.draw().unwrap_or(split.ends.len())] += 1;
        }
        counts
    }

    #[test]
    fn each_round_gives_each_its_number() {
        for (all, round, expected) in [
            (&[(20, 100)][..], 100, vec![20, 80]),
            (&[(1, 3)], 3, vec![1, 2]),
            (&[(5, 100), (20, 100), (1, 1000)], 1000, vec![50, 200, 1, 749]),
            (&[(0, 100), (50, 100)], 100, vec![0, 50, 50]),
            (&[(7, 1000)], 1000, vec![7, 993]),
            (&[(80, 100), (50, 100)], 100, vec![80, 20, 0]),
            (&[(99, 100)], 100, vec![99, 1]),
        ] {
            let split = TrafficSplit::new(all.iter().copied());
            for _ in 0..5 {
                assert_eq!(counts(&split, round), expected, "{all:?}");
            }
        }
    }

    #[test]
    fn shares_of_0_and_100_percent_need_no_draw() {
        for (all, taken) in [
            (&[(0, 100)][..], None),
            (&[], None),
            (&[(100, 100)], Some(0)),
            (&[(150, 100)], Some(0)),
            (&[(1, 0)], Some(0)),
        ] {
            let split = TrafficSplit::new(all.iter().copied());
            assert!((0..200).all(|_| split.draw() == taken), "{all:?}");
            assert_eq!(split.turn.load(Ordering::Relaxed), 0);
        }
    }

    /// After any number of requests, a share deviates by only a few requests from its exact value.
    #[test]
    fn shares_mix_evenly_within_a_round() {
        for (weight, total) in [(20, 100), (50, 100), (1, 100), (300, 1000), (5000, 100_000)] {
            let split = TrafficSplit::new([(weight, total)].into_iter());
            let mut taken = 0;
            for drawn in 1..=20_000 {
                taken += i32::from(split.draw().is_some());
                let expected = f64::from(drawn) * f64::from(weight) / f64::from(total);
                let off = (f64::from(taken) - expected).abs();
                assert!(off <= 16.0, "{weight} of {total}: {taken} of {drawn}");
            }
        }
    }

    #[test]
    fn they_are_exact_over_all_threads_together() {
        let split = TrafficSplit::new([(37, 100)].into_iter());
        let taken: usize = thread::scope(|scope| {
            let draw = || (0..2500).filter(|_| split.draw().is_some()).count();
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(draw)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(taken, 3700);
    }

    /// A client that alternates between two requests does not get one share for each of them.
    #[test]
    fn clients_that_come_in_turns_meet_both_sides() {
        let split = TrafficSplit::new([(1, 100)].into_iter());
        let taken: Vec<usize> = (0..20_000).filter(|_| split.draw().is_some()).collect();
        let odd = taken.iter().filter(|turn| **turn % 2 == 1).count();
        assert_eq!(taken.len(), 200);
        // Six standard deviations of 200 draws with a probability of 1/2 are 42.
        assert!((58..=142).contains(&odd), "{odd}");
    }

    #[test]
    fn rounds_that_would_be_too_long_are_rounded() {
        let split = TrafficSplit::new([(1, 1_000_003), (1, 999_983), (500_000, 1_000_000)].into_iter());
        assert_eq!(split.round, LONGEST);
        let half = counts(&split, 20_000)[2];
        assert!((9_950..=10_050).contains(&half), "{half}");
    }
}
