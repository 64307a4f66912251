//! What the files of a folder amount to: which object is in which file, and what a new text of one file
//! changes.
//!
//! An object that is in two files is taken from the one whose name sorts last; when that one goes, the
//! other counts again. A file with a part that cannot be read keeps the last good objects that its readable
//! parts do not replace.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::Arc;

use sluice_config::{Code, NamespacedName, ObjectRef, Problem};

use super::manifest::{self, Contents, Parsed, PieceOutcome};
use crate::problem::{error, warning};
use crate::store::{Event, Kind, Object, ObjectKey, Prune, References};

/// Problems of one file that are reported one by one: each is a line of the log.
const MOST_PROBLEMS: usize = 100;

/// All files.
pub(super) struct Folder {
    prune: Prune,
    files: BTreeMap<Arc<Path>, File>,
    stands: BTreeSet<Stand>,
    /// Objects that are in more than one file, with the last two.
    doubles: BTreeMap<ObjectKey, (Arc<Path>, Arc<Path>)>,
    /// Files with problems.
    problems: BTreeMap<Arc<Path>, Vec<Problem>>,
    skipped: BTreeMap<String, usize>,
    changes: FolderChanges,
}

#[derive(Default)]
struct File {
    /// Differs between two states of the file.
    stamp: u64,
    pieces: Box<[Parsed]>,
    /// Last good objects in place of parts that cannot be read.
    kept: Box<[Object]>,
}

/// An object and the file it is in. Ordered by the key of the object, then by file, whose last one counts.
/// The key is not kept apart, since there is an entry for every object.
struct Stand {
    object: Object,
    file: Arc<Path>,
}

/// What is different since it was last asked for.
#[derive(Default)]
pub(super) struct FolderChanges {
    /// Objects.
    pub(super) events: Vec<Event>,
    /// Whether problems are others.
    pub(super) problems: bool,
    /// Whether other kinds, or other numbers of them, are skipped.
    pub(super) skipped: bool,
}

/// Objects of one file, by key.
type Index<'a> = HashMap<(Kind, &'a NamespacedName), &'a Object>;

impl Folder {
    pub(super) fn new(prune: Prune) -> Self {
        Self {
            prune,
            files: BTreeMap::new(),
            stands: BTreeSet::new(),
            doubles: BTreeMap::new(),
            problems: BTreeMap::new(),
            skipped: BTreeMap::new(),
            changes: FolderChanges::default(),
        }
    }

    /// The names of all files, relative to the folder.
    pub(super) fn names(&self) -> impl Iterator<Item = &Arc<Path>> {
        self.files.keys()
    }

    /// The stamp a file was put with.
    pub(super) fn stamp(&self, name: &Path) -> Option<u64> {
        self.files.get(name).map(|file| file.stamp)
    }

    /// Whether a file has objects.
    pub(super) fn has_objects_of(&self, name: &Path) -> bool {
        self.files.get(name).is_some_and(|file| !file.objects().is_empty())
    }

    /// Whether any object is different since that was last asked for.
    pub(super) fn has_events(&self) -> bool {
        !self.changes.events.is_empty()
    }

    /// What is different since this was last asked for.
    pub(super) fn take_changes(&mut self) -> FolderChanges {
        std::mem::take(&mut self.changes)
    }

    /// Kinds that are not served, with the number of objects of each.
    pub(super) fn skipped(&self) -> &BTreeMap<String, usize> {
        &self.skipped
    }

    /// All problems with files.
    pub(super) fn problems(&self) -> Vec<Problem> {
        let doubles = self.doubles.iter().map(|(key, (below, top))| {
            let top = top.display();
            warning(
                Code::ManifestDuplicate,
                &file_ref(below),
                key.to_string(),
                format!("the object is in {top} too, which counts because its name sorts last"),
                "remove it from one of the two files",
            )
        });
        self.problems.values().flatten().cloned().chain(doubles).collect()
    }

    /// Parses a file that is new.
    pub(super) fn parse(&self, contents: &Contents) -> Box<[Parsed]> {
        manifest::parse(contents, &self.prune, Box::default())
    }

    /// Something else is needed of Secrets and ConfigMaps from now on. Gives the files that have to be read again for it:
    /// of what was not needed nothing was kept.
    pub(super) fn refer(&self, references: References) -> BTreeSet<Arc<Path>> {
        let wanted =
            references.wanted.into_iter().map(|reference| (reference.object, Some(reference.fields)));
        let released = references.released.into_iter().map(|object| (object, None));
        let mut files = BTreeSet::new();
        for (key, fields) in released.chain(wanted) {
            self.prune.need(&key, fields);
            let Some(object) = key.unreferred() else { continue };
            files.extend(self.stands(&object).map(|stand| stand.file.clone()));
        }
        files
    }

    /// The file has this text now.
    pub(super) fn put(&mut self, name: &Arc<Path>, stamp: u64, contents: &Contents) {
        self.replace(name, stamp, |prune, before| manifest::parse(contents, prune, before));
    }

    /// The file has these pieces now.
    pub(super) fn put_pieces(&mut self, name: &Arc<Path>, stamp: u64, pieces: Box<[Parsed]>) {
        self.replace(name, stamp, |_, _| pieces);
    }

    fn replace(
        &mut self,
        name: &Arc<Path>,
        stamp: u64,
        parse: impl FnOnce(&Prune, Box<[Parsed]>) -> Box<[Parsed]>,
    ) {
        let old = self.files.remove(name).unwrap_or_default();
        let before = old.objects();
        old.pieces.iter().for_each(|piece| self.count(&piece.outcome, false));
        let pieces = parse(&self.prune, old.pieces);
        let mut problems = Vec::new();
        for piece in &pieces {
            self.count(&piece.outcome, true);
            piece.outcome.each(&mut |outcome| {
                if let PieceOutcome::Bad(fault) = outcome {
                    let line = piece.lines_before as usize + fault.line;
                    let message = format!("{}; last good objects stay in force", fault.reason);
                    problems.push(error(
                        Code::ManifestInvalid,
                        &file_ref(name),
                        format!("line {line}"),
                        message,
                        "correct the file",
                    ));
                }
            });
        }
        let broken = !problems.is_empty();
        if problems.len() > MOST_PROBLEMS {
            let message = format!("{} more parts cannot be read either", problems.len() - MOST_PROBLEMS);
            problems.truncate(MOST_PROBLEMS);
            problems.push(error(Code::ManifestInvalid, &file_ref(name), "", message, "correct the file"));
        }
        let mut new = File { stamp, pieces, kept: Box::default() };
        let after = new.objects();
        let index_before = index(&before);
        let mut index_after = Index::with_capacity(after.len());
        for object in &after {
            if index_after.insert(identity(object), object).is_some() {
                let message = "the object is in this file twice; the last one counts";
                let key = object.key().to_string();
                problems.push(warning(
                    Code::ManifestDuplicate,
                    &file_ref(name),
                    key,
                    message,
                    "remove one of the two",
                ));
            }
        }
        let mut kept = Vec::new();
        if broken {
            let missing = index_before.iter().filter(|(key, _)| !index_after.contains_key(key));
            kept.extend(missing.map(|(_, object)| (*object).clone()));
            index_after.extend(kept.iter().map(|object| (identity(object), object)));
        }
        self.exchange(name, &index_before, &index_after);
        new.kept = kept.into();
        self.files.insert(name.clone(), new);
        self.put_problems(name, problems);
    }

    /// The file is there and cannot be read: what it held stays.
    pub(super) fn unreadable(&mut self, name: &Arc<Path>, stamp: u64, reason: &str) {
        self.files.entry(name.clone()).or_default().stamp = stamp;
        let message = format!("cannot be read: {reason}; last good objects stay in force");
        let remedy = "make it readable text in UTF-8";
        self.put_problems(name, vec![error(Code::FileUnreadable, &file_ref(name), "", message, remedy)]);
    }

    /// The file is gone.
    pub(super) fn remove(&mut self, name: &Path) {
        let Some((name, old)) = self.files.remove_entry(name) else { return };
        old.pieces.iter().for_each(|piece| self.count(&piece.outcome, false));
        self.exchange(&name, &index(&old.objects()), &Index::new());
        self.put_problems(&name, Vec::new());
    }

    fn put_problems(&mut self, name: &Arc<Path>, problems: Vec<Problem>) {
        let old = if problems.is_empty() {
            self.problems.remove(name)
        } else {
            self.problems.insert(name.clone(), problems)
        };
        self.changes.problems |= old.as_ref() != self.problems.get(name);
    }

    fn count(&mut self, outcome: &PieceOutcome, up: bool) {
        let (skipped, changes) = (&mut self.skipped, &mut self.changes);
        outcome.each(&mut |one| {
            let PieceOutcome::Skipped(kind) = one else { return };
            changes.skipped = true;
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
    fn exchange(&mut self, file: &Arc<Path>, before: &Index<'_>, after: &Index<'_>) {
        let gone = before.iter().filter(|(key, _)| !after.contains_key(key)).map(|(_, old)| (*old, None));
        let put = after.iter().filter(|(key, new)| before.get(key) != Some(new));
        let mut changed: Vec<(&Object, Option<&Object>)> =
            put.map(|(_, new)| (*new, Some(*new))).chain(gone).collect();
        changed.sort_by(|(a, _), (b, _)| identity(a).cmp(&identity(b)));
        for (object, new) in changed {
            // What nothing refers to is known here alone.
            let counts = |object: &Object| !object.is_unreferred();
            let was = self.stands(object).last().map(|stand| stand.object.clone()).filter(counts);
            self.stands.remove(&Stand { object: object.clone(), file: file.clone() });
            let stand = new.map(|new| Stand { object: new.clone(), file: file.clone() });
            self.stands.extend(stand);
            let stands: Vec<&Stand> = self.stands(object).collect();
            let now = stands.last().map(|stand| stand.object.clone()).filter(counts);
            let double = match &*stands {
                [.., below, top] => Some((below.file.clone(), top.file.clone())),
                _ => None,
            };
            match now {
                Some(now) if was.as_ref() != Some(&now) => self.changes.events.push(Event::Put(now)),
                None if was.is_some() => self.changes.events.push(Event::Delete(object.key())),
                _ => {}
            }
            let old = match double.clone() {
                Some(files) => self.doubles.insert(object.key(), files),
                None if self.doubles.is_empty() => None,
                None => self.doubles.remove(&object.key()),
            };
            self.changes.problems |= old != double;
        }
    }

    /// Where the object of this key is; the last one counts.
    fn stands(&self, object: &Object) -> impl Iterator<Item = &Stand> {
        let first = Stand { object: object.clone(), file: Path::new("").into() };
        let key = (object.kind(), object.name().clone());
        self.stands.range(first..).take_while(move |stand| identity(&stand.object) == (key.0, &key.1))
    }
}

impl Stand {
    fn order(&self) -> (Kind, &NamespacedName, &Path) {
        let (kind, name) = identity(&self.object);
        (kind, name, &self.file)
    }
}

impl Ord for Stand {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order().cmp(&other.order())
    }
}

impl PartialOrd for Stand {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Stand {
    fn eq(&self, other: &Self) -> bool {
        self.order() == other.order()
    }
}

impl Eq for Stand {}

impl File {
    /// In the order of the file, what is kept first.
    fn objects(&self) -> Vec<Object> {
        let mut objects = self.kept.to_vec();
        for piece in &self.pieces {
            piece.outcome.each(&mut |outcome| {
                if let PieceOutcome::Object(object) = outcome {
                    objects.push(object.clone());
                }
            });
        }
        objects
    }
}

fn index(objects: &[Object]) -> Index<'_> {
    objects.iter().map(|object| (identity(object), object)).collect()
}

fn identity(object: &Object) -> (Kind, &NamespacedName) {
    (object.kind(), object.name())
}

fn file_ref(name: &Path) -> ObjectRef {
    ObjectRef::new("File", "", &name.to_string_lossy())
}
