//! A table of settings, with families in the order of the documentation and entries found by name.

use std::collections::HashMap;

use sluice_config::NamespacedName;

use super::Setting;
use crate::nearest::nearest;

/// Settings that belong together.
pub struct Family<S> {
    /// Title for documentation.
    pub title: &'static str,
    /// The settings.
    pub settings: Vec<Setting<S>>,
    finish: Option<Finish<S>>,
}

/// Computes values that depend on several settings of an object.
pub type Finish<S> = fn(&mut S, &NamespacedName);

impl<S> Family<S> {
    /// Creates a family without a final step.
    pub fn new(title: &'static str, settings: Vec<Setting<S>>) -> Self {
        Self { title, settings, finish: None }
    }

    /// Adds a final step, which runs after all settings of an object were read, in the order of the
    /// families.
    #[must_use]
    pub fn finished_by(self, finish: Finish<S>) -> Self {
        Self { finish: Some(finish), ..self }
    }
}

/// All settings of a kind, family by family.
pub struct Table<S> {
    entries: Vec<Setting<S>>,
    /// The title of each family, and its number of entries.
    families: Vec<(&'static str, usize)>,
    by_name: HashMap<&'static str, usize>,
    finish: Vec<Finish<S>>,
}

impl<S> Table<S> {
    /// Creates a table of these families.
    pub fn new(all: impl IntoIterator<Item = Family<S>>) -> Self {
        let (mut entries, mut families, mut all_finish) = (Vec::new(), Vec::new(), Vec::new());
        for Family { title, settings, finish } in all {
            families.push((title, settings.len()));
            entries.extend(settings);
            all_finish.extend(finish);
        }
        let names = entries.iter().enumerate();
        let by_name = names.flat_map(|(at, entry)| entry.names().map(move |name| (name, at))).collect();
        Self { entries, families, by_name, finish: all_finish }
    }

    /// Runs the final steps of all families for an object.
    pub fn finish(&self, settings: &mut S, object: &NamespacedName) {
        self.finish.iter().for_each(|finish| finish(settings, object));
    }

    /// Returns all entries.
    pub fn entries(&self) -> impl Iterator<Item = &Setting<S>> {
        self.entries.iter()
    }

    /// Returns each family's title and entries.
    pub fn families(&self) -> impl Iterator<Item = (&'static str, &[Setting<S>])> {
        let mut rest = &self.entries[..];
        self.families.iter().map(move |(title, count)| {
            let (family, others) = rest.split_at(*count);
            rest = others;
            (*title, family)
        })
    }

    /// Returns the entry with this name or older name.
    pub fn get(&self, name: &str) -> Option<&Setting<S>> {
        self.by_name.get(name).map(|at| &self.entries[*at])
    }

    /// Returns the known name nearest to `name`, if it is near enough to be a typing error.
    pub fn nearest(&self, name: &str) -> Option<&'static str> {
        nearest(self.entries().flat_map(Setting::names), name)
    }
}
