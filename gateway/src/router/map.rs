//! The maps of the route table.

/// A persistent map that hashes fast: its keys are the operator's, and what clients ask for is looked up and not kept, so
/// nobody can fill it with keys that collide.
pub(super) type Map<K, V> =
    imbl::GenericHashMap<K, V, foldhash::fast::RandomState, imbl::shared_ptr::DefaultSharedPtr>;
