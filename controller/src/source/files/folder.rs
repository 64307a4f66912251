//! The content of a folder: the objects of each file, and the changes when a file changes.
//!
//! If an object is in two files, the one whose name sorts last applies; when that one is removed,
//! the other applies again. A file with an unreadable part keeps those of its last good objects
//! that its readable parts do not replace.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::ops::Bound::{Included, Unbounded};
use std::path::Path;
use std::sync::Arc;

use sluice_config::{Code, NamespacedName, ObjectRef, Problem};

use super::manifest::{self, Contents, Parsed, PieceOutcome};
use super::stamp::Stamp;
use super::text;
use crate::problem::{error, warning};
use crate::store::{Event, Kind, Object, ObjectKey, Prune, References};

/// Maximum number of problems reported for one file: each is a log line.
const MOST_PROBLEMS: usize = 100;

/// All files.
pub(super) struct Folder {
    prune: Prune,
    files: BTreeMap<Arc<Path>, File>,
    stands: BTreeSet<Stand>,
    /// Objects in more than one file, with the last two files.
    doubles: BTreeMap<ObjectKey, (Arc<Path>, Arc<Path>)>,
    /// Problems by file.
    problems: BTreeMap<Arc<Path>, Vec<Problem>>,
    skipped: BTreeMap<String, usize>,
    changes: FolderChanges,
}

#[derive(Default)]
struct File {
    /// The state of the file at the last read.
    stamp: Stamp,
    pieces: Box<[Parsed]>,
    /// Last good objects, kept because of unreadable parts.
    kept: Box<[Object]>,
}

/// An object and its file. Ordered by the key of the object, then by file; the last one applies.
/// The key is not stored separately, because there is an entry for every object.
struct Stand {
    object: Object,
    file: Arc<Path>,
}

/// Changes since the last call of [`Folder::take_changes`].
#[derive(Default)]
pub(super) struct FolderChanges {
    /// Changed objects.
    pub(super) events: Vec<Event>,
    /// Whether problems have changed.
    pub(super) problems: bool,
    /// Whether the kinds or numbers of skipped objects have changed.
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

    /// Returns the names of all files, relative to the folder.
    pub(super) fn names(&self) -> impl Iterator<Item = &Arc<Path>> {
        self.files.keys()
    }

    /// Returns the stamp with which a file was stored.
    pub(super) fn stamp(&self, name: &Path) -> Option<Stamp> {
        self.files.get(name).map(|file| file.stamp)
    }

    /// Returns whether a file, or any file in a folder of this name, contains objects.
    pub(super) fn has_objects_of(&self, name: &Path) -> bool {
        let mut below = self
            .files
            .range::<Path, _>((Included(name), Unbounded))
            .take_while(|(file, _)| file.starts_with(name));
        below.any(|(_, file)| !file.objects().is_empty())
    }

    /// Returns the part of a message about a file or folder that cannot be read which states what
    /// becomes of its objects.
    pub(super) fn kept(&self, name: &Path) -> &'static str {
        kept(self.has_objects_of(name))
    }

    /// Returns whether objects have changed since [`take_changes`](Self::take_changes).
    pub(super) fn has_events(&self) -> bool {
        !self.changes.events.is_empty()
    }

    /// Returns the changes since the last call.
    pub(super) fn take_changes(&mut self) -> FolderChanges {
        std::mem::take(&mut self.changes)
    }

    /// Returns the kinds that are not served, with their number of objects.
    pub(super) fn skipped(&self) -> &BTreeMap<String, usize> {
        &self.skipped
    }

    /// Returns all problems of files.
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

    /// Parses a new file.
    pub(super) fn parse(&self, contents: &Contents) -> Box<[Parsed]> {
        manifest::parse(contents, &self.prune, Box::default())
    }

    /// Updates the needed fields of Secrets and ConfigMaps. Returns the files that must be read
    /// again, because fields that were not needed were not kept.
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

    /// Stores the new content of a file.
    pub(super) fn put(&mut self, name: &Arc<Path>, stamp: Stamp, contents: &Contents) {
        self.replace(name, stamp, |prune, before| manifest::parse(contents, prune, before));
    }

    /// Stores the new content of a file, already parsed.
    pub(super) fn put_pieces(&mut self, name: &Arc<Path>, stamp: Stamp, pieces: Box<[Parsed]>) {
        self.replace(name, stamp, |_, _| pieces);
    }

    fn replace(
        &mut self,
        name: &Arc<Path>,
        stamp: Stamp,
        parse: impl FnOnce(&Prune, Box<[Parsed]>) -> Box<[Parsed]>,
    ) {
        let old = self.files.remove(name).unwrap_or_default();
        let before = old.objects();
        old.pieces.iter().for_each(|piece| self.count(&piece.outcome, false));
        let pieces = parse(&self.prune, old.pieces);
        let (mut problems, mut unknown) = (Vec::new(), Vec::new());
        let kept = kept(!before.is_empty());
        for piece in &pieces {
            self.count(&piece.outcome, true);
            piece.outcome.each(&mut |outcome| match outcome {
                PieceOutcome::Bad(fault) => {
                    let line = piece.lines_before as usize + fault.line;
                    let message = format!("{}{kept}", fault.reason);
                    problems.push(error(
                        Code::ManifestInvalid,
                        &file_ref(name),
                        format!("line {line}"),
                        message,
                        "correct the file",
                    ));
                }
                PieceOutcome::Inexact(object) => {
                    let place = format!("{} from line {}", name.display(), piece.lines_before + 1);
                    unknown.extend(object.problems(&place));
                }
                _ => {}
            });
        }
        let broken = !problems.is_empty();
        if problems.len() > MOST_PROBLEMS {
            let message = format!("{} more parts cannot be read either", problems.len() - MOST_PROBLEMS);
            problems.truncate(MOST_PROBLEMS);
            problems.push(error(Code::ManifestInvalid, &file_ref(name), "", message, "correct the file"));
        }
        if unknown.len() > MOST_PROBLEMS {
            let message = format!("{} more fields are unknown", unknown.len() - MOST_PROBLEMS);
            unknown.truncate(MOST_PROBLEMS);
            unknown.push(error(Code::ManifestFieldUnknown, &file_ref(name), "", message, "correct the file"));
        }
        problems.append(&mut unknown);
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

    /// Records that an existing file cannot be read. Its objects are kept.
    pub(super) fn unreadable(&mut self, name: &Arc<Path>, stamp: Stamp, reason: &io::Error) {
        self.files.entry(name.clone()).or_default().stamp = stamp;
        let message = format!("cannot be read: {reason}{}", self.kept(name));
        let remedy = text::remedy(reason);
        self.put_problems(name, vec![error(Code::FileUnreadable, &file_ref(name), "", message, remedy)]);
    }

    /// Removes a file.
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

    /// Replaces the objects of a file.
    fn exchange(&mut self, file: &Arc<Path>, before: &Index<'_>, after: &Index<'_>) {
        let gone = before.iter().filter(|(key, _)| !after.contains_key(key)).map(|(_, old)| (*old, None));
        let put = after.iter().filter(|(key, new)| before.get(key) != Some(new));
        let mut changed: Vec<(&Object, Option<&Object>)> =
            put.map(|(_, new)| (*new, Some(*new))).chain(gone).collect();
        changed.sort_by(|(a, _), (b, _)| identity(a).cmp(&identity(b)));
        for (object, new) in changed {
            // Unreferenced objects are known only here and not sent.
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

    /// Returns all occurrences of an object. The last one applies.
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
    /// Returns the objects in file order, kept ones first.
    fn objects(&self) -> Vec<Object> {
        let mut objects = self.kept.to_vec();
        for piece in &self.pieces {
            piece.outcome.each(&mut |outcome| objects.extend(outcome.object().cloned()));
        }
        objects
    }
}

/// Completes a message about a file that cannot be read.
fn kept(has_objects: bool) -> &'static str {
    if has_objects { "; last good objects stay in force" } else { "" }
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
