//! A list of values in order of insertion from which any value can be removed. All operations take
//! constant time.

/// A doubly linked list in a vector. Slots of removed values are reused.
#[derive(Debug)]
pub(super) struct ByAge<T> {
    nodes: Vec<Node<T>>,
    /// Slots without a value.
    free: Vec<usize>,
    oldest: Option<usize>,
    newest: Option<usize>,
}

#[derive(Debug)]
struct Node<T> {
    value: Option<T>,
    older: Option<usize>,
    newer: Option<usize>,
}

impl<T> Default for ByAge<T> {
    fn default() -> Self {
        Self { nodes: Vec::new(), free: Vec::new(), oldest: None, newest: None }
    }
}

impl<T> ByAge<T> {
    /// Returns the number of values.
    pub(super) fn len(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    /// Adds a value and returns its slot, which identifies it until it is removed.
    pub(super) fn add(&mut self, value: T) -> usize {
        let node = Node { value: Some(value), older: self.newest, newer: None };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.nodes[slot] = node;
                slot
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() - 1
            }
        };
        match self.newest.replace(slot) {
            Some(older) => self.nodes[older].newer = Some(slot),
            None => self.oldest = Some(slot),
        }
        slot
    }

    /// Returns the value in a slot.
    pub(super) fn get_mut(&mut self, slot: usize) -> Option<&mut T> {
        self.nodes.get_mut(slot)?.value.as_mut()
    }

    /// Removes the value of a slot.
    pub(super) fn remove(&mut self, slot: usize) -> Option<T> {
        let node = self.nodes.get_mut(slot)?;
        let value = node.value.take()?;
        let (older, newer) = (node.older, node.newer);
        match older {
            Some(older) => self.nodes[older].newer = newer,
            None => self.oldest = newer,
        }
        match newer {
            Some(newer) => self.nodes[newer].older = older,
            None => self.newest = older,
        }
        self.free.push(slot);
        Some(value)
    }

    /// Removes the oldest value.
    pub(super) fn remove_oldest(&mut self) -> Option<T> {
        self.remove(self.oldest?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_leave_in_their_order_whichever_were_removed_before() {
        let mut list = ByAge::default();
        let slots: Vec<_> = (0..6).map(|value| list.add(value)).collect();
        for removed in [0, 3, 5] {
            assert_eq!(list.remove(slots[removed]), Some(removed));
            assert_eq!(list.remove(slots[removed]), None, "once");
        }
        list.add(6);
        assert_eq!(list.len(), 4);
        let rest: Vec<_> = std::iter::from_fn(|| list.remove_oldest()).collect();
        assert_eq!((rest, list.len()), (vec![1, 2, 4, 6], 0));
        list.add(7);
        assert_eq!((list.remove_oldest(), list.nodes.len()), (Some(7), 6), "slots are reused");
    }
}
