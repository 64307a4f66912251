//! The map type of the route table.

/// A persistent map with a fast hash function. Its keys come from the configuration; keys from
/// clients are only looked up, never stored, so clients cannot fill it with colliding keys.
pub(super) type Map<K, V> =
    imbl::GenericHashMap<K, V, foldhash::fast::RandomState, imbl::shared_ptr::DefaultSharedPtr>;
