//! What the files of a folder amount to: which object stands in which file, and what a new text of one file
//! changes.
//!
//! An object that stands in two files is taken from the one whose name sorts last; when that one goes, the
//! other counts again. A file with a part that cannot be read keeps the last good objects that its readable
//! parts do not replace.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use sluice_config::{ObjectRef, Problem};

use super::manifest::{self, Language, Outcome, Parsed};
use crate::problem::{error, warning};
use crate::source::Event;
use crate::store::{Object, ObjectKey, Prune};

/// All files.
pub(super) struct Folder {
    prune: Prune,
    files: BTreeMap<Arc<Path>, File>,
    stands: HashMap<ObjectKey, Stands>,
    /// Objects that stand in more than one file.
    doubles: BTreeSet<ObjectKey>,
    /// Files with problems.
    problems: BTreeMap<Arc<Path>, Vec<Problem>>,
    skipped: BTreeMap<String, usize>,
    news: News,
}

#[derive(Default)]
struct File {
    pieces: Vec<Parsed>,
    /// Last good objects in place of parts that cannot be read.
    kept: Vec<Object>,
}

/// Where an object stands; the last file by name counts.
struct Stands {
    top: (Arc<Path>, Object),
    below: Vec<(Arc<Path>, Object)>,
}

/// What is different since it was last asked for.
#[derive(Default)]
pub(super) struct News {
    /// Objects.
    pub(super) events: Vec<Event>,
    /// Whether problems are others.
    pub(super) problems: bool,
    /// Whether other kinds, or other numbers of them, are skipped.
    pub(super) skipped: bool,
}

impl Folder {
    pub(super) fn new(prune: Prune) -> Self {
        Self {
            prune,
            files: BTreeMap::new(),
            stands: HashMap::new(),
            doubles: BTreeSet::new(),
            problems: BTreeMap::new(),
            skipped: BTreeMap::new(),
            news: News::default(),
        }
    }

    /// The names of all files, relative to the folder.
    pub(super) fn names(&self) -> impl Iterator<Item = &Arc<Path>> {
        self.files.keys()
    }

    /// What is different since this was last asked for.
    pub(super) fn take_news(&mut self) -> News {
        std::mem::take(&mut self.news)
    }

    /// Kinds that are not served, with the number of objects of each.
    pub(super) fn skipped(&self) -> &BTreeMap<String, usize> {
        &self.skipped
    }

    /// All problems with files.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let doubles = self.doubles.iter().filter_map(|key| {
            let stands = self.stands.get(key)?;
            let (below, _) = stands.below.last()?;
            Some(warning(
                &file_ref(below),
                key.to_string(),
                format!(
                    "the object stands in {} too, which counts because its name sorts last",
                    stands.top.0.display()
                ),
                "remove it from one of the two files",
            ))
        });
        self.problems.values().flatten().cloned().chain(doubles).collect()
    }

    /// The file has this text now.
    pub(super) fn put(&mut self, name: &Arc<Path>, text: &str, language: Language) {
        let old = self.files.remove(name).unwrap_or_default();
        let before = old.objects();
        old.pieces.iter().for_each(|piece| self.count(&piece.outcome, false));
        let pieces = manifest::parse(text, language, &self.prune, old.pieces);
        let mut new = File { pieces, kept: Vec::new() };
        let mut problems = Vec::new();
        for piece in &new.pieces {
            self.count(&piece.outcome, true);
            piece.outcome.each(&mut |outcome| {
                if let Outcome::Bad(fault) = outcome {
                    let line = piece.lines_before + fault.line;
                    let message = format!("{}; last good objects stay in force", fault.reason);
                    problems.push(error(
                        &file_ref(name),
                        format!("line {line}"),
                        message,
                        "correct the file",
                    ));
                }
            });
        }
        let mut after = new.objects();
        problems.extend(new.doubles().into_iter().map(|key| {
            let message = "the object stands in this file twice; the last one counts";
            warning(&file_ref(name), key.to_string(), message, "remove one of the two")
        }));
        if problems.iter().any(|problem| problem.field.starts_with("line ")) {
            let kept = before.iter().filter(|(key, _)| !after.contains_key(key));
            new.kept = kept.map(|(_, object)| object.clone()).collect();
            after.extend(new.kept.iter().map(|object| (object.key(), object.clone())));
        }
        self.files.insert(name.clone(), new);
        self.exchange(name, &before, &after);
        self.put_problems(name, problems);
    }

    /// The file is there and cannot be read: what it held stays.
    pub(super) fn unreadable(&mut self, name: &Arc<Path>, reason: &str) {
        self.files.entry(name.clone()).or_default();
        let message = format!("cannot be read: {reason}; last good objects stay in force");
        let remedy = "make it readable text in UTF-8";
        self.put_problems(name, vec![error(&file_ref(name), "", message, remedy)]);
    }

    /// The file is gone.
    pub(super) fn remove(&mut self, name: &Path) {
        let Some((name, old)) = self.files.remove_entry(name) else { return };
        old.pieces.iter().for_each(|piece| self.count(&piece.outcome, false));
        self.exchange(&name, &old.objects(), &BTreeMap::new());
        self.put_problems(&name, Vec::new());
    }

    fn put_problems(&mut self, name: &Arc<Path>, problems: Vec<Problem>) {
        let old = if problems.is_empty() {
            self.problems.remove(name)
        } else {
            self.problems.insert(name.clone(), problems)
        };
        self.news.problems |= old.as_ref() != self.problems.get(name);
    }

    fn count(&mut self, outcome: &Outcome, up: bool) {
        let (skipped, news) = (&mut self.skipped, &mut self.news);
        outcome.each(&mut |one| {
            let Outcome::Skipped(kind) = one else { return };
            news.skipped = true;
            if up {
                *skipped.entry(kind.to_string()).or_default() += 1;
            } else if let Some(count) = skipped.get_mut(&**kind) {
                *count -= 1;
                if *count == 0 {
                    skipped.remove(&**kind);
                }
            }
        });
    }

    /// The file holds `after` in place of `before`.
    fn exchange(
        &mut self,
        file: &Arc<Path>,
        before: &BTreeMap<ObjectKey, Object>,
        after: &BTreeMap<ObjectKey, Object>,
    ) {
        let keys: BTreeSet<&ObjectKey> = before.keys().chain(after.keys()).collect();
        for key in keys {
            let new = after.get(key);
            if before.get(key) == new {
                continue;
            }
            let was = self.stands.get(key).map(|stands| stands.top.1.clone());
            self.stand(key, file, new);
            let now = self.stands.get(key).map(|stands| &stands.top.1);
            match now {
                Some(now) if was.as_ref() != Some(now) => self.news.events.push(Event::Put(now.clone())),
                None if was.is_some() => self.news.events.push(Event::Delete(key.clone())),
                _ => {}
            }
            let double = self.stands.get(key).is_some_and(|stands| !stands.below.is_empty());
            let turned = if double { self.doubles.insert(key.clone()) } else { self.doubles.remove(key) };
            // Even where it stood twice before, the files may be others now.
            self.news.problems |= turned || double;
        }
    }

    fn stand(&mut self, key: &ObjectKey, file: &Arc<Path>, object: Option<&Object>) {
        let mut all: Vec<(Arc<Path>, Object)> = match self.stands.remove(key) {
            Some(stands) => stands.below.into_iter().chain([stands.top]).collect(),
            None => Vec::new(),
        };
        all.retain(|(other, _)| other != file);
        all.extend(object.map(|object| (file.clone(), object.clone())));
        all.sort_by(|(a, _), (b, _)| a.cmp(b));
        if let Some(top) = all.pop() {
            self.stands.insert(key.clone(), Stands { top, below: all });
        }
    }
}

impl File {
    fn objects(&self) -> BTreeMap<ObjectKey, Object> {
        let mut objects: BTreeMap<ObjectKey, Object> =
            self.kept.iter().map(|object| (object.key(), object.clone())).collect();
        self.each_object(|object| drop(objects.insert(object.key(), object.clone())));
        objects
    }

    fn doubles(&self) -> BTreeSet<ObjectKey> {
        let mut seen = BTreeSet::new();
        let mut doubles = BTreeSet::new();
        self.each_object(|object| {
            let key = object.key();
            if !seen.insert(key.clone()) {
                doubles.insert(key);
            }
        });
        doubles
    }

    fn each_object(&self, mut see: impl FnMut(&Object)) {
        for piece in &self.pieces {
            piece.outcome.each(&mut |outcome| {
                if let Outcome::Object(object) = outcome {
                    see(object);
                }
            });
        }
    }
}

fn file_ref(name: &Path) -> ObjectRef {
    ObjectRef::new("File", "", &name.to_string_lossy())
}
