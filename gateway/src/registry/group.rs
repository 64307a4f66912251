//! Groups of endpoints chosen by a key (`upstream-hash-by-subset`), as in ingress-nginx: the
//! members in order, cut into groups of equal size, the last one filled up from the beginning.

use std::num::NonZeroU32;
use std::sync::Arc;

use super::endpoint::Endpoint;
use super::endpoint_set::SetGeneration;

/// Returns a random member of the key's group, or the next acceptable one of the group.
pub(super) fn member<'g>(
    generation: &'g SetGeneration,
    key: &[u8],
    size: NonZeroU32,
    accept: impl Fn(&Endpoint) -> bool,
) -> Option<&'g Arc<Endpoint>> {
    let endpoints = &generation.endpoints;
    let size = usize::try_from(size.get()).unwrap_or(usize::MAX).min(endpoints.len());
    if size == 0 {
        return None;
    }
    let first = bucket(hash(key), endpoints.len().div_ceil(size)) * size;
    let drawn = fastrand::usize(..size);
    let mut group = (0..size).map(|step| &endpoints[(first + (drawn + step) % size) % endpoints.len()]);
    group.find(|endpoint| accept(endpoint))
}

/// Jump consistent hashing (Lamping and Veach, 2014): one more bucket moves only the keys that go
/// to it.
fn bucket(mut key: u64, buckets: usize) -> usize {
    let (mut at, mut next) = (0, 0);
    while next < buckets {
        at = next;
        key = key.wrapping_mul(2_862_933_555_777_941_757).wrapping_add(1);
        next = ((at + 1) as f64 * ((1_u64 << 31) as f64 / ((key >> 33) + 1) as f64)) as usize;
    }
    at
}

/// 64-bit FNV-1a: stable across gateways and versions.
fn hash(key: &[u8]) -> u64 {
    key.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_spread_over_buckets_and_few_move_when_there_is_one_more() {
        let keys: Vec<u64> = (0..6000).map(|number| hash(format!("user-{number}").as_bytes())).collect();
        for buckets in 1..=6 {
            let now: Vec<usize> = keys.iter().map(|key| bucket(*key, buckets)).collect();
            for at in 0..buckets {
                let share = now.iter().filter(|bucket| **bucket == at).count() * buckets;
                assert!((5_200..=6_800).contains(&share), "{share} in {at} of {buckets}");
            }
            let next = keys.iter().map(|key| bucket(*key, buckets + 1));
            assert!(now.iter().zip(next).all(|(now, next)| *now == next || next == buckets));
        }
    }
}
