//! Values in the order in which they were added, of which any can be removed. Every operation takes
//! constant time.

/// A doubly linked list in a vector. A slot of it is reused once its value is removed.
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
    /// How many values there are.
    pub(super) fn len(&self) -> usize {
        self.nodes.len() - self.free.len()
    }

    /// Adds a value, and returns the slot that it has until it is removed.
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

    /// The value of a slot.
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

    /// Removes the value that was added first.
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
