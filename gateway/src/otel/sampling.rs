//! The decision on whether a trace is sampled.

use sluice_config::{RootSampler, Sampler};

use super::ids::TraceId;

/// Returns whether a trace is sampled. `parent` is the decision of the caller whose trace is
/// continued.
pub(crate) fn is_sampled(sampler: Sampler, trace: TraceId, parent: Option<bool>) -> bool {
    if let Some(parent) = parent.filter(|_| sampler.follows_parent) {
        return parent;
    }
    match sampler.root {
        RootSampler::AlwaysOn => true,
        RootSampler::AlwaysOff => false,
        RootSampler::TraceIdRatioBased(share) => share.includes(trace.end()),
    }
}

#[cfg(test)]
mod tests {
    use sluice_config::SampledShare;

    use super::*;

    #[test]
    fn the_parent_decides_if_the_sampler_follows_it() {
        let trace = TraceId::random();
        let ratio = |ratio| RootSampler::TraceIdRatioBased(SampledShare::of(ratio));
        for root in [RootSampler::AlwaysOn, RootSampler::AlwaysOff, ratio(0.0), ratio(1.0)] {
            let by_itself = matches!(root, RootSampler::AlwaysOn) || root == ratio(1.0);
            for follows_parent in [true, false] {
                let sampler = Sampler { root, follows_parent };
                assert_eq!(is_sampled(sampler, trace, None), by_itself, "{sampler:?}");
                for parent in [true, false] {
                    let expected = if follows_parent { parent } else { by_itself };
                    assert_eq!(is_sampled(sampler, trace, Some(parent)), expected, "{sampler:?}");
                }
            }
        }
    }

    #[test]
    fn a_ratio_samples_about_its_share() {
        let sampler =
            Sampler { root: RootSampler::TraceIdRatioBased(SampledShare::of(0.25)), follows_parent: true };
        let sampled = (0..10_000).filter(|_| is_sampled(sampler, TraceId::random(), None)).count();
        assert!((2_200..2_800).contains(&sampled), "{sampled}");
    }
}
