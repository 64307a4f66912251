//! A watched folder on disk: which changes are sent.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::time::{Duration, Instant};

use notify::event::{EventKind, Flag, ModifyKind, RemoveKind, RenameMode};
use sluice_config::{NamespacedName, Problem, Severity};
use tempfile::TempDir;

use super::folder::Folder;
use super::manifest::Contents;
use super::stamp::Stamp;
use super::watch::FileChange;
use super::*;
use crate::input;
use crate::store::{DataFields, Event, Kind, Object, ObjectKey, Reference};

const WAIT: Duration = Duration::from_secs(20);

/// A watched folder and everything sent for it.
struct Watched {
    folder: TempDir,
    source: FileSource,
    inputs: channel::Receiver<Input>,
    objects: BTreeMap<String, Object>,
    problems: Vec<Problem>,
    skipped: BTreeMap<String, usize>,
    events: usize,
}

impl Watched {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = TempDir::new().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let path = folder.path().to_owned();
        Self::at(folder, &path)
    }

    /// The comparison interval is so long that tests depend on notifications.
    fn at(folder: TempDir, path: &Path) -> Self {
        Self::comparing(folder, path, Duration::from_secs(3600))
    }

    fn comparing(folder: TempDir, path: &Path, compare: Duration) -> Self {
        let (sender, inputs) = input::channel();
        let source = FileSource::start_comparing(path, &Options::default(), sender, compare).unwrap();
        let mut watched = Self {
            folder,
            source,
            inputs,
            objects: BTreeMap::new(),
            problems: Vec::new(),
            skipped: BTreeMap::new(),
            events: 0,
        };
        assert_eq!(watched.next().progress, Progress::AllButReferred);
        watched
    }

    fn next(&mut self) -> Batch {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let inputs = &mut self.inputs;
        let input = runtime.block_on(async { tokio::time::timeout(WAIT, inputs.recv()).await });
        let input = input.expect("a batch comes in time").expect("the source lives");
        let Input::Batch(batch) = input else { panic!("{input:?}") };
        self.events = batch.events.len();
        for event in &batch.events {
            match event {
                Event::Put(object) => drop(self.objects.insert(object.key().to_string(), object.clone())),
                Event::Delete(key) => {
                    assert!(self.objects.remove(&key.to_string()).is_some(), "only what is there goes");
                }
                Event::Classes(_) => {}
            }
        }
        if let Some(problems) = &batch.problems {
            self.problems.clone_from(problems);
        }
        if let Some(skipped) = &batch.skipped {
            self.skipped.clone_from(skipped);
        }
        batch
    }

    /// Receives batches until `holds` returns true.
    fn until(&mut self, mut holds: impl FnMut(&Self) -> bool) {
        while !holds(self) {
            self.next();
        }
    }

    /// Sets the references and receives the resulting batch.
    fn refer(&mut self, wanted: &[(&str, &[&'static str])], released: &[&str]) {
        let key = |name: &str| ObjectKey { kind: Kind::Secret, name: NamespacedName::new("default", name) };
        let wanted = wanted
            .iter()
            .map(|(name, fields)| Reference { object: key(name), fields: DataFields::named(fields) })
            .collect();
        let released = released.iter().map(|name| key(name)).collect();
        self.source.references()(References { wanted, released });
        while self.next().progress != Progress::Complete {}
    }

    /// Returns the fields of a Secret that were sent.
    fn secret(&self, name: &str) -> Option<Vec<&str>> {
        match self.objects.get(&format!("Secret default/{name}"))? {
            Object::Secret(secret) => Some(secret.data.iter().map(|(key, _)| &**key).collect()),
            other => panic!("{other:?}"),
        }
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn port(&self, service: &str) -> Option<i32> {
        match self.objects.get(&format!("Service default/{service}")) {
            Some(Object::Service(service)) => Some(service.ports[0].number),
            _ => None,
        }
    }

    fn texts(&self) -> Vec<String> {
        self.problems.iter().map(ToString::to_string).collect()
    }
}

fn service(name: &str, port: u16) -> String {
    format!("apiVersion: v1\nkind: Service\nmetadata:\n  name: {name}\nspec:\n  ports:\n  - port: {port}\n")
}

#[test]
fn every_form_of_file_is_read_and_others_are_not() {
    let list = "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Service\n  metadata:\n    name: in-list\n  spec:\n    ports:\n    - port: 1\n- apiVersion: apps/v1\n  kind: Deployment\n  metadata:\n    name: d\nkind: List\n";
    let typed = "{\"kind\": \"ServiceList\", \"apiVersion\": \"v1\", \"items\": [\n{\"metadata\": {\"name\": \"in-json\"}, \"spec\": {\"ports\": [{\"port\": 2}]}}]}";
    let flow = "{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Service, metadata: {name: in-flow}, spec: {ports: [{port: 3}]}}]}";
    let many = format!("# two\n---\n{}---\n{}---\n", service("one", 4), service("two", 5));
    let alias = "kind: List\napiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Service\n  metadata: {name: aliased}\n  spec: &spec\n    ports: [{port: 6}]\n- apiVersion: v1\n  kind: Service\n  metadata: {name: alias}\n  spec: *spec\n";
    let files = [
        ("list.yaml", list),
        ("typed.json", typed),
        ("flow.yml", flow),
        ("many.yaml", &many),
        ("alias.yaml", alias),
        (".hidden.yaml", "nonsense: ["),
        ("backup.yaml~", "nonsense: ["),
        ("README.md", "nonsense: ["),
        ("empty.yaml", "# nothing\n"),
        ("empty.json", "\n"),
    ];
    let watched = Watched::new(&files);
    assert_eq!(watched.texts(), [""; 0]);
    let ports: Vec<Option<i32>> = ["in-list", "in-json", "in-flow", "one", "two", "aliased", "alias"]
        .iter()
        .map(|name| watched.port(name))
        .collect();
    assert_eq!(ports, [1, 2, 3, 4, 5, 6, 6].map(Some));
    assert_eq!(watched.skipped, BTreeMap::from([("Deployment.apps".to_owned(), 1)]));
}

#[test]
fn edits_renames_and_removals_are_seen_and_only_what_changed_is_sent() {
    let two = |a, b| format!("{}---\n{}", service("a", a), service("b", b));
    let mut watched = Watched::new(&[("two.yaml", &two(1, 1)), ("c.yaml", &service("c", 1))]);
    watched.write("two.yaml", &two(1, 2));
    watched.until(|watched| watched.port("b") == Some(2));
    assert_eq!(watched.events, 1, "the unchanged object of the file is not sent");

    watched.write("c.yaml.tmp", &service("c", 3));
    fs::rename(watched.path("c.yaml.tmp"), watched.path("c.yaml")).unwrap();
    watched.until(|watched| watched.port("c") == Some(3));

    fs::remove_file(watched.path("two.yaml")).unwrap();
    watched.until(|watched| watched.objects.len() == 1);

    fs::create_dir_all(watched.path("deep/er")).unwrap();
    watched.write("deep/er/d.yaml", &service("d", 4));
    watched.until(|watched| watched.port("d") == Some(4));
    watched.write("deep/er/d.yaml", &service("d", 5));
    watched.until(|watched| watched.port("d") == Some(5));
    fs::rename(watched.path("deep"), watched.path(".gone")).unwrap();
    watched.until(|watched| watched.port("d").is_none());
    assert_eq!(watched.texts(), [""; 0]);
}

#[test]
fn a_broken_file_keeps_its_last_good_objects_and_names_the_line() {
    let mut watched = Watched::new(&[("a.yaml", &service("a", 1)), ("b.yaml", "kind: Service\n\tx: 1\n")]);
    assert_eq!(watched.port("a"), Some(1), "another file's fault");
    assert!(watched.texts()[0].starts_with("error: File b.yaml: line 2: "), "{:?}", watched.texts());

    let broken = format!("{}---\napiVersion: v1\nkind: Service\nmetadata:\n  name: [x\n", service("new", 9));
    watched.write("a.yaml", &broken);
    watched.until(|watched| watched.port("new") == Some(9));
    assert_eq!(watched.port("a"), Some(1), "last good");
    assert_eq!(watched.problems.len(), 2);
    watched.write("a.yaml", &service("a", 2).replace("port: 2", "port: many"));
    watched.until(|watched| watched.texts()[0].contains("many"));
    assert_eq!(watched.port("a"), Some(1), "last good");

    watched.write("a.yaml", &service("new", 9));
    watched.until(|watched| watched.problems.len() == 1);
    assert_eq!((watched.port("a"), watched.port("new")), (None, Some(9)));
    fs::write(watched.path("b.yaml"), [0xff, 0xfe]).unwrap();
    watched.until(|watched| watched.texts()[0].contains("UTF-8"));
    fs::remove_file(watched.path("b.yaml")).unwrap();
    watched.until(|watched| watched.problems.is_empty());
}

#[test]
fn a_file_that_is_broken_all_over_does_not_fill_the_log() {
    let watched = Watched::new(&[("a.yaml", &"---\nkind: [\n".repeat(5000)), ("b.yaml", &service("b", 1))]);
    assert_eq!((watched.port("b"), watched.problems.len()), (Some(1), 101));
    assert!(watched.texts()[100].contains("4900 more parts"), "{}", watched.texts()[100]);
}

#[test]
fn an_old_version_of_a_served_kind_is_no_silence() {
    let old = "apiVersion: networking.k8s.io/v1beta1\nkind: Ingress\nmetadata: {name: old}\n";
    let watched = Watched::new(&[("old.yaml", old), ("nothing.yaml", "a: 1\n")]);
    assert!(watched.texts()[1].contains("networking.k8s.io/v1beta1"), "{:?}", watched.texts());
    assert!(watched.texts()[0].contains("kind is missing"), "{:?}", watched.texts());
}

#[test]
fn of_an_object_in_two_files_the_later_name_counts_and_the_other_steps_in() {
    let mut watched = Watched::new(&[("1.yaml", &service("a", 1)), ("2.yaml", &service("a", 2))]);
    assert_eq!(watched.port("a"), Some(2));
    assert!(watched.texts()[0].contains("File 1.yaml: Service default/a: the object is in 2.yaml too"));
    fs::remove_file(watched.path("2.yaml")).unwrap();
    watched.until(|watched| watched.port("a") == Some(1) && watched.problems.is_empty());
}

#[test]
fn a_mounted_configmap_is_followed_through_its_links() {
    let folder = TempDir::new().unwrap();
    let version = |name: &str, port: u16| {
        fs::create_dir(folder.path().join(name)).unwrap();
        fs::write(folder.path().join(name).join("a.yaml"), service("a", port)).unwrap();
    };
    version("..v1", 1);
    symlink("..v1", folder.path().join("..data")).unwrap();
    symlink("..data/a.yaml", folder.path().join("a.yaml")).unwrap();
    let path = folder.path().to_owned();
    version("..v2", 2);
    let mut watched = Watched::at(folder, &path);
    assert_eq!(watched.port("a"), Some(1));
    symlink("..v2", watched.path("..data_tmp")).unwrap();
    fs::rename(watched.path("..data_tmp"), watched.path("..data")).unwrap();
    watched.until(|watched| watched.port("a") == Some(2));
}

#[test]
fn a_mounted_folder_behind_a_link_is_followed_through_the_swap() {
    let folder = TempDir::new().unwrap();
    let version = |name: &str, port: u16| {
        fs::create_dir_all(folder.path().join(name).join("sub")).unwrap();
        fs::write(folder.path().join(name).join("sub/a.yaml"), service("a", port)).unwrap();
    };
    version("..v1", 1);
    symlink("..v1", folder.path().join("..data")).unwrap();
    symlink("..data/sub", folder.path().join("sub")).unwrap();
    let path = folder.path().to_owned();
    version("..v2", 2);
    let mut watched = Watched::at(folder, &path);
    assert_eq!(watched.port("a"), Some(1));
    symlink("..v2", watched.path("..data_tmp")).unwrap();
    fs::rename(watched.path("..data_tmp"), watched.path("..data")).unwrap();
    fs::remove_dir_all(watched.path("..v1")).unwrap();
    watched.until(|watched| watched.port("a") == Some(2));
    watched.write("sub/a.yaml", &service("a", 3));
    watched.until(|watched| watched.port("a") == Some(3));
    assert_eq!(watched.texts(), [""; 0]);
}

#[test]
fn every_real_folder_is_read_once_under_its_own_name() {
    let folder = TempDir::new().unwrap();
    fs::create_dir_all(folder.path().join("real/deeper")).unwrap();
    fs::write(folder.path().join("real/deeper/a.yaml"), service("a", 1)).unwrap();
    // Sorts before its target.
    symlink("real", folder.path().join("alias")).unwrap();
    symlink("../..", folder.path().join("real/deeper/up")).unwrap();
    let path = folder.path().to_owned();
    let mut watched = Watched::at(folder, &path);
    assert_eq!(watched.port("a"), Some(1));
    let texts = watched.texts();
    let names = |text: &str, link: &str| text.contains(&format!("{}: ", watched.path(link).display()));
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert!(names(&texts[0], "alias") && texts[0].contains("the same folder as real"), "{texts:?}");
    assert!(names(&texts[1], "real/deeper/up") && texts[1].contains("--manifests itself"), "{texts:?}");
    fs::remove_file(watched.path("alias")).unwrap();
    fs::remove_file(watched.path("real/deeper/up")).unwrap();
    watched.until(|watched| watched.problems.is_empty());
    watched.write("real/deeper/a.yaml", &service("a", 2));
    watched.until(|watched| watched.port("a") == Some(2));
}

#[test]
fn a_source_that_is_dropped_ends_in_the_middle_of_many_files() {
    let folder = TempDir::new().unwrap();
    for number in 0..2000 {
        fs::write(folder.path().join(format!("{number}.yaml")), service(&format!("s{number}"), 1)).unwrap();
    }
    let (sender, mut inputs) = input::channel();
    let source = FileSource::start(folder.path(), &Options::default(), sender).unwrap();
    drop(source);
    // An interrupted pass is not a state of the folder and is not sent.
    while let Some(input) = inputs.blocking_recv() {
        let Input::Batch(batch) = input else { panic!("{input:?}") };
        assert_eq!(batch.events.len(), 2000);
    }
}

#[test]
fn a_folder_that_is_a_link_is_followed_when_it_leads_elsewhere() {
    let folder = TempDir::new().unwrap();
    for (name, port) in [("r1", 1), ("r2", 2)] {
        fs::create_dir(folder.path().join(name)).unwrap();
        fs::write(folder.path().join(name).join("a.yaml"), service("a", port)).unwrap();
    }
    let link = folder.path().join("current");
    symlink("r1", &link).unwrap();
    let mut watched = Watched::at(folder, &link);
    assert_eq!(watched.port("a"), Some(1));
    symlink("r2", watched.path("next")).unwrap();
    fs::rename(watched.path("next"), &link).unwrap();
    watched.until(|watched| watched.port("a") == Some(2));
    watched.write("r2/a.yaml", &service("a", 3));
    watched.until(|watched| watched.port("a") == Some(3));
}

#[test]
fn a_folder_that_is_not_there_is_an_error_at_once() {
    let error = FileSource::start(Path::new("/nonexistent/folder"), &Options::default(), input::channel().0)
        .unwrap_err();
    assert!(error.to_string().contains("--manifests names a folder"), "{error}");
}

#[test]
fn a_large_file_is_parsed_in_part_only() {
    let item = |n: usize, port: u16| {
        format!("- {}", service(&format!("s{n}"), port).trim_end().replace('\n', "\n  "))
    };
    let list = |port| {
        let items: Vec<String> = (0..200).map(|n| item(n, if n == 100 { port } else { 1 })).collect();
        format!("apiVersion: v1\nkind: List\nitems:\n{}\n", items.join("\n"))
    };
    let prune = Prune::new(&Options::default());
    let contents = |port| Contents { text: list(port), language: manifest::Language::Yaml };
    let first = manifest::parse(&contents(1), &prune, Box::default());
    let pointers = |parsed: &[manifest::Parsed]| -> Vec<*const crate::store::Service> {
        let mut found = Vec::new();
        for piece in parsed {
            piece.outcome.each(&mut |outcome| {
                if let Some(Object::Service(service)) = outcome.object() {
                    found.push(Arc::as_ptr(service));
                }
            });
        }
        found
    };
    let before = pointers(&first);
    let second = manifest::parse(&contents(2), &prune, first);
    let after = pointers(&second);
    assert_eq!((before.len(), after.len()), (200, 200));
    let same = before.iter().zip(&after).filter(|(a, b)| a == b).count();
    assert_eq!(same, 199);
}

#[test]
fn a_file_that_an_editor_moves_aside_does_not_lose_its_objects_meanwhile() {
    let mut watched = Watched::new(&[("a.yaml", &service("a", 1))]);
    fs::rename(watched.path("a.yaml"), watched.path("a.yaml~")).unwrap();
    watched.write("a.yaml", &service("a", 2));
    let edit = watched.next();
    assert!(matches!(edit.events[..], [Event::Put(_)]), "{:?}", edit.events);
    assert_eq!(watched.port("a"), Some(2));

    fs::rename(watched.path("a.yaml"), watched.path("b.yaml")).unwrap();
    watched.write("c.yaml", &service("c", 3));
    watched.until(|watched| watched.port("c") == Some(3));
    assert_eq!(
        (watched.port("a"), watched.texts()),
        (Some(2), Vec::<String>::new()),
        "a file under a new name"
    );
}

#[test]
fn a_file_emptied_before_it_is_written_keeps_its_objects() {
    let mut watched = Watched::new(&[("a.yaml", &service("a", 1))]);
    // The notification after a shell empties and closes a file, as in `: > a.yaml`.
    watched.write("a.yaml", "");
    watched.write("b.yaml", &service("b", 1));
    watched.until(|watched| watched.port("b") == Some(1));
    assert_eq!(watched.port("a"), Some(1), "another file is no reason to give it up");
    watched.write("a.yaml", &service("a", 2));
    let edit = watched.next();
    assert!(matches!(edit.events[..], [Event::Put(_)]), "{:?}", edit.events);

    watched.write("a.yaml", "");
    watched.until(|watched| watched.port("a").is_none());
    watched.write("a.yaml", &service("a", 3));
    watched.until(|watched| watched.port("a") == Some(3));
}

#[test]
fn the_replacement_of_a_moved_file_is_read_when_complete() {
    let mut watched = Watched::new(&[("a.yaml", &service("a", 1))]);
    let name = ModifyKind::Name;
    // The file already exists under the new name and is being written when the notification for the
    // old name arrives.
    let mut half = fs::File::create(watched.path("half.yaml")).unwrap();
    half.write_all(service("half", 1).as_bytes()).unwrap();
    for kind in [EventKind::Modify(name(RenameMode::From)), EventKind::Remove(RemoveKind::File)] {
        let event = notify::Event::new(kind).add_path(watched.path("half.yaml"));
        assert!(matches!(watch::changes(event)[..], [FileChange::Gone(_)]));
        let left = FileChange::Gone(watched.path("half.yaml"));
        watched.source.wakes.send(Wake::Changed(left, Instant::now())).unwrap();
    }
    let both = notify::Event::new(EventKind::Modify(name(RenameMode::Both)))
        .add_path(watched.path("a.yaml"))
        .add_path(watched.path("half.yaml"));
    assert!(watch::changes(both).is_empty(), "its two names have had an event each");
    watched.write("b.yaml", &service("b", 1));
    watched.until(|watched| watched.port("b") == Some(1));
    assert_eq!(watched.port("half"), None);
    drop(half);
    watched.until(|watched| watched.port("half") == Some(1));
}

/// Two objects in one file, of which the second is written later.
struct HalfWritten(fs::File);

impl HalfWritten {
    fn begin(watched: &Watched, name: &str) -> Self {
        let mut file = fs::File::create(watched.path(name)).unwrap();
        file.write_all(service("first", 2).as_bytes()).unwrap();
        Self(file)
    }

    fn end(mut self) {
        write!(self.0, "---\n{}", service("second", 2)).unwrap();
    }
}

#[test]
fn a_file_that_is_written_in_place_was_read_with_any_other_change() {
    let both = format!("{}---\n{}", service("first", 1), service("second", 1));
    let mut watched = Watched::new(&[("both.yaml", &both)]);
    fs::create_dir(watched.path("empty")).unwrap();
    let changes: [fn(&Watched); 3] = [
        |watched| fs::create_dir(watched.path("other")).unwrap(),
        |watched| fs::remove_dir(watched.path("empty")).unwrap(),
        |watched| symlink("/nonexistent", watched.path("link")).unwrap(),
    ];
    for (change, port) in changes.iter().zip(1..) {
        let half = HalfWritten::begin(&watched, "both.yaml");
        change(&watched);
        // Its notification comes after that of the change.
        watched.write("last.yaml", &service("last", port));
        watched.until(|watched| watched.port("last") == Some(port.into()));
        assert!(watched.port("second").is_some(), "change {port}");
        half.end();
        watched.until(|watched| watched.port("first") == Some(2) && watched.port("second") == Some(2));
        watched.write("both.yaml", &both);
        watched.until(|watched| watched.port("first") == Some(1) && watched.port("second") == Some(1));
    }
    assert_eq!(watched.texts(), [""; 0]);
}

#[test]
fn a_new_file_that_is_being_written_was_read_with_any_other_change() {
    let mut watched = Watched::new(&[]);
    let half = HalfWritten::begin(&watched, "new.yaml");
    fs::create_dir(watched.path("other")).unwrap();
    watched.write("last.yaml", &service("last", 1));
    watched.until(|watched| watched.port("last").is_some());
    assert_eq!(watched.port("first"), None);
    half.end();
    watched.until(|watched| watched.port("first").is_some());
    assert!(watched.port("second").is_some());
}

#[test]
fn a_file_without_a_notification_is_read_when_unchanged_for_an_interval() {
    let (folder, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    // The writer has another name for the file, in a folder that is not watched.
    let other = elsewhere.path().join("a");
    fs::write(&other, service("a", 1)).unwrap();
    fs::hard_link(&other, folder.path().join("a.yaml")).unwrap();
    let path = folder.path().to_owned();
    let mut watched = Watched::comparing(folder, &path, Duration::from_millis(200));
    fs::write(&other, service("a", 2)).unwrap();
    watched.until(|watched| watched.port("a") == Some(2));
}

#[test]
fn a_folder_that_was_away_for_a_moment_is_watched_as_before() {
    let folder = TempDir::new().unwrap();
    fs::create_dir_all(folder.path().join("deep/er")).unwrap();
    fs::write(folder.path().join("deep/er/a.yaml"), service("a", 1)).unwrap();
    let path = folder.path().to_owned();
    let mut watched = Watched::at(folder, &path);
    for port in [2, 3] {
        // The same folder with the same content, so its path and identity are unchanged.
        fs::rename(watched.path("deep"), watched.path(".away")).unwrap();
        fs::rename(watched.path(".away"), watched.path("deep")).unwrap();
        watched.write("b.yaml", &service("b", port));
        watched.until(|watched| watched.port("b") == Some(port.into()));
        watched.write("deep/er/a.yaml", &service("a", port));
        watched.until(|watched| watched.port("a") == Some(port.into()));
    }
    // A new folder, which often gets the inode number of the old one.
    fs::remove_dir_all(watched.path("deep")).unwrap();
    fs::create_dir_all(watched.path("deep/er")).unwrap();
    watched.write("b.yaml", &service("b", 4));
    watched.until(|watched| watched.port("b") == Some(4));
    watched.write("deep/er/a.yaml", &service("a", 4));
    watched.until(|watched| watched.port("a") == Some(4));
    assert_eq!(watched.texts(), [""; 0]);
}

#[test]
fn a_file_that_could_not_be_read_is_read_again_without_a_notification() {
    let (folder, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let target = elsewhere.path().join("a");
    // A link to itself cannot be opened, even by root.
    symlink(&target, &target).unwrap();
    fs::write(folder.path().join("b.yaml"), service("b", 1)).unwrap();
    symlink(&target, folder.path().join("a.yaml")).unwrap();
    let path = folder.path().to_owned();
    let mut watched = Watched::at(folder, &path);
    assert_eq!((watched.port("a"), watched.port("b")), (None, Some(1)));
    assert!(watched.texts()[0].contains("File a.yaml"), "{:?}", watched.texts());
    let whole = elsewhere.path().join("whole");
    fs::write(&whole, service("a", 1)).unwrap();
    fs::rename(&whole, &target).unwrap();
    watched.until(|watched| watched.port("a") == Some(1) && watched.problems.is_empty());
}

#[test]
fn a_file_that_cannot_be_looked_at_keeps_its_objects() {
    let (folder, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (target, link) = (elsewhere.path().join("a"), folder.path().join("a.yaml"));
    fs::write(&target, service("a", 1)).unwrap();
    symlink(&target, &link).unwrap();
    let path = folder.path().to_owned();
    let mut watched = Watched::at(folder, &path);
    let next = elsewhere.path().join("next");
    symlink(&target, &next).unwrap();
    fs::rename(&next, &target).unwrap();
    symlink(&target, watched.path("a.next")).unwrap();
    fs::rename(watched.path("a.next"), &link).unwrap();
    watched.until(|watched| !watched.problems.is_empty());
    watched.write("b.yaml", &service("b", 1));
    watched.until(|watched| watched.port("b") == Some(1));
    assert_eq!(watched.port("a"), Some(1), "last good");
}

#[test]
fn a_change_without_a_notification_is_found_when_the_folder_is_compared() {
    let (folder, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    // The target of the linked file is in a folder that is not watched.
    let target = elsewhere.path().join("a");
    fs::write(&target, service("a", 1)).unwrap();
    symlink(&target, folder.path().join("a.yaml")).unwrap();
    let path = folder.path().to_owned();
    let mut watched = Watched::comparing(folder, &path, Duration::from_millis(50));
    assert_eq!(watched.port("a"), Some(1));
    fs::write(&target, service("a", 2)).unwrap();
    watched.until(|watched| watched.port("a") == Some(2));
}

#[test]
fn a_folder_that_cannot_be_looked_at_is_tried_again_and_keeps_its_objects() {
    let (folder, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    let (target, away) = (elsewhere.path().join("sub"), elsewhere.path().join("away"));
    fs::create_dir(&target).unwrap();
    fs::write(target.join("a.yaml"), service("a", 1)).unwrap();
    symlink(&target, folder.path().join("sub")).unwrap();
    let path = folder.path().to_owned();
    let mut watched = Watched::at(folder, &path);
    // A link to itself cannot be opened, even by root. Only the folder to which it leads is
    // watched, not the link.
    fs::rename(&target, &away).unwrap();
    symlink(&target, &target).unwrap();
    fs::create_dir(watched.path("look")).unwrap();
    watched.until(|watched| !watched.problems.is_empty());
    assert!(watched.texts()[0].contains("the folder cannot be read"), "{:?}", watched.texts());
    assert_eq!(watched.port("a"), Some(1), "last good");

    fs::write(away.join("a.yaml"), service("a", 2)).unwrap();
    fs::remove_file(&target).unwrap();
    fs::rename(&away, &target).unwrap();
    watched.until(|watched| watched.port("a") == Some(2) && watched.problems.is_empty());
}

#[test]
fn changes_of_a_folder_with_a_relative_path_went_unnoticed() {
    let folder = TempDir::new().unwrap();
    let here = std::env::current_dir().unwrap();
    let up: PathBuf = here.components().skip(1).map(|_| "..").collect();
    let relative = up.join(folder.path().strip_prefix("/").unwrap());
    let mut watched = Watched::at(folder, &relative);
    watched.write("a.yaml", &service("a", 1));
    watched.until(|watched| watched.port("a") == Some(1));
}

#[test]
fn after_missing_notifications_everything_is_looked_at_and_watched_anew() {
    let overflow = notify::Event::new(EventKind::Other).set_flag(Flag::Rescan);
    assert!(matches!(watch::changes(overflow)[..], [FileChange::Missed]));

    let (folder, elsewhere) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    // The target of the linked file is in an unwatched folder, so its change causes no
    // notification.
    let target = elsewhere.path().join("a");
    fs::write(&target, service("a", 1)).unwrap();
    symlink(&target, folder.path().join("a.yaml")).unwrap();
    let path = folder.path().to_owned();
    let mut watched = Watched::at(folder, &path);
    fs::write(&target, service("a", 2)).unwrap();
    watched.source.wakes.send(Wake::Changed(FileChange::Missed, Instant::now())).unwrap();
    watched.until(|watched| watched.port("a") == Some(2));
    watched.write("b.yaml", &service("b", 1));
    watched.until(|watched| watched.port("b") == Some(1));
}

fn secret(name: &str, fields: &[(&str, &str)]) -> String {
    let data: Vec<String> = fields.iter().map(|(key, value)| format!("  {key}: {value}\n")).collect();
    format!("apiVersion: v1\nkind: Secret\nmetadata:\n  name: {name}\nstringData:\n{}", data.concat())
}

#[test]
fn only_referenced_secrets_are_sent() {
    let both = format!("{}---\n{}", service("web", 80), secret("tls", &[("tls.crt", "a"), ("more", "b")]));
    let other = secret("other", &[("auth", "c")]);
    let mut watched = Watched::new(&[("a.yaml", &both), ("b.yaml", &other)]);
    assert_eq!((watched.secret("tls"), watched.secret("other")), (None, None));
    assert_eq!(watched.port("web"), Some(80));

    watched.refer(&[("tls", &["tls.crt", "tls.key"])], &[]);
    assert_eq!((watched.secret("tls"), watched.events), (Some(vec!["tls.crt"]), 1));
    watched.refer(&[("tls", &["more", "tls.crt"])], &[]);
    assert_eq!(watched.secret("tls"), Some(vec!["more", "tls.crt"]));
    watched.refer(&[("other", &["auth"])], &["tls"]);
    assert_eq!((watched.secret("tls"), watched.secret("other")), (None, Some(vec!["auth"])));
    watched.refer(&[("missing", &["auth"])], &[]);
    assert_eq!(watched.events, 0, "every request gets an answer, even without changes");

    watched.write("b.yaml", &secret("other", &[("auth", "d"), ("x", "y")]));
    watched.until(|watched| watched.events > 0);
    assert_eq!(watched.secret("other"), Some(vec!["auth"]));
    watched.write("c.yaml", &secret("missing", &[("auth", "e")]));
    watched.until(|watched| watched.secret("missing").is_some());
    fs::remove_file(watched.path("b.yaml")).unwrap();
    watched.until(|watched| watched.secret("other").is_none());
}

#[test]
fn an_ingress_and_its_secret_written_together_apply_together() {
    let folder = TempDir::new().unwrap();
    let class = "{apiVersion: networking.k8s.io/v1, kind: IngressClass, metadata: {name: nginx}, spec: {controller: k8s.io/ingress-nginx}}";
    fs::write(folder.path().join("class.yaml"), class).unwrap();
    let (sender, inputs) = input::channel();
    let source = FileSource::start(folder.path(), &Options::default(), sender).unwrap();
    let (applied, deltas) = mpsc::channel();
    let refer = source.references();
    thread::spawn(move || {
        let apply = move |delta: sluice_config::Delta| {
            let generation = delta.generation;
            let _ = applied.send(delta);
            sluice_config::Report::Applied {
                generation,
                took: Duration::ZERO,
                refused: Vec::new(),
                accepted: Vec::new(),
            }
        };
        crate::run(crate::Controller::new(Options::default()), inputs, apply, &mut Passes(refer));
    });
    let next = || deltas.recv_timeout(WAIT).expect("a delta in time");
    while !next().complete {}
    let site = "apiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata:\n  name: shop\n  annotations:\n    nginx.ingress.kubernetes.io/auth-type: basic\n    nginx.ingress.kubernetes.io/auth-secret: users\nspec:\n  ingressClassName: nginx\n  rules: [{host: shop.example, http: {paths: [{path: /, pathType: Prefix, backend: {service: {name: web, port: {number: 80}}}}]}}]\n";
    let users = secret("users", &[("auth", "'u:$apr1$mI7SilJz$CWwYJyYKbhVDNl26sdUSh/'")]);
    fs::write(folder.path().join("next"), format!("{site}---\n{users}---\n{}", service("web", 80))).unwrap();
    fs::rename(folder.path().join("next"), folder.path().join("shop.yaml")).unwrap();
    let delta = next();
    assert_eq!((delta.hosts.len(), delta.resources.len()), (1, 1));
    let sluice_config::Change::Put(_, host) = &delta.hosts[0] else { panic!("{delta:?}") };
    assert!(host.rules.iter().all(|rule| rule.policies.deny.is_none()), "{host:?}");
    drop(source);
}

/// Passes references to a source.
struct Passes<F>(F);

impl<F: Fn(References)> crate::Observe for Passes<F> {
    fn references(&mut self, changes: References) {
        (self.0)(changes);
    }
}

#[test]
fn a_misspelt_field_of_a_manifest_is_a_problem() {
    let yaml = "# shop\n---\napiVersion: networking.k8s.io/v1\nkind: Ingress\nmetadata:\n  name: shop\n  annotation:\n    \
                nginx.ingress.kubernetes.io/auth-type: basic\n  nginx.ingress.kubernetes.io/auth-realm: a\nspec:\n  rules:\n  \
                - hosts: shop.example\n    host: shop.example\n  labels: {}\nstatus: {loadBalancer: {}, later: 1}\n";
    let json = r#"{"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": []}, "oddity": 1}"#;
    let list = "kind: List\napiVersion: v1\nitems: [{apiVersion: v1, kind: Service, metadata: {name: flow, lables: {}}}]\n";
    let mut watched = Watched::new(&[("a.yaml", yaml), ("b.json", json), ("c.yaml", list)]);
    assert_eq!(watched.objects.len(), 3);
    let found: Vec<_> = watched
        .problems
        .iter()
        .map(|problem| (problem.object.to_string(), &*problem.field, &*problem.remedy))
        .collect();
    let shop = || "Ingress default/shop".to_owned();
    let indent = "indent it as part of the object that has it, or remove it";
    assert_eq!(
        found,
        [
            (shop(), "metadata.annotation", "did you mean annotations?"),
            (
                shop(),
                "metadata.nginx.ingress.kubernetes.io/auth-realm",
                "indent it as an entry of metadata.annotations"
            ),
            (shop(), "spec.rules[0].hosts", indent),
            (shop(), "spec.labels", indent),
            ("Service default/web".to_owned(), "oddity", "correct its name, or remove it"),
            ("Service default/flow".to_owned(), "metadata.lables", "did you mean labels?"),
        ]
    );
    assert_eq!(watched.problems[0].severity, Severity::Error);
    assert_eq!(
        watched.problems[0].message,
        "Ingress has no such field, so it is ignored (a.yaml from line 2)"
    );
    watched.write("a.yaml", &yaml.replace("annotation:", "annotations:"));
    watched.until(|watched| watched.problems.len() == 5);
}

#[test]
fn a_file_that_may_not_be_read_names_the_permission() {
    let mut folder = Folder::new(Prune::new(&Options::default()));
    let name: Arc<Path> = Path::new("a.yaml").into();
    let mut problem = |kind: io::ErrorKind| {
        folder.unreadable(&name, Stamp::default(), &kind.into());
        let problem = folder.problems().remove(0);
        (problem.message, problem.remedy)
    };
    let (message, remedy) = problem(io::ErrorKind::PermissionDenied);
    assert_eq!(
        (&*message, &*remedy),
        ("cannot be read: permission denied", "give the gateway's user the permission to read it")
    );
    assert_eq!(problem(io::ErrorKind::FileTooLarge).1, "cut it into several files");
    assert_eq!(problem(io::ErrorKind::InvalidData).1, "write it as text in UTF-8");
    let contents = Contents { text: service("web", 1), language: manifest::Language::Yaml };
    folder.put(&name, Stamp::default(), &contents);
    folder.unreadable(&name, Stamp::default(), &io::ErrorKind::PermissionDenied.into());
    assert!(folder.problems()[0].message.ends_with("; last good objects stay in force"));
}

#[test]
fn a_file_without_an_object_is_described_in_words_of_kubernetes() {
    let watched = Watched::new(&[("a.json", "\"text\""), ("b.yaml", "text\n")]);
    for text in watched.texts() {
        assert!(text.contains("a Kubernetes object") && !text.contains("struct"), "{text}");
        assert!(!text.contains("last good objects"), "the file had none: {text}");
    }
    assert_eq!(watched.problems.len(), 2);
}
