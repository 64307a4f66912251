//! Reads the databases from their files, and again when a file changes. A file that is missing or
//! damaged leaves the database that was read before in use.

use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use maxminddb::MaxMindDbError;
use sluice_config::{Code, LocationDatabase, ObjectRef, Problem, Severity};

use super::Locations;
use super::database::Database;

/// Time between two looks at the files. A look without a change costs one system call per file.
pub(crate) const LOOK: Duration = Duration::from_secs(5);

/// The files that contain the databases.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LocationFiles {
    /// The folder (`--geoip-path`).
    pub folder: PathBuf,
    /// The editions (`--maxmind-edition-ids`); each has a file of its name, which ends with
    /// `.mmdb`.
    pub editions: Vec<String>,
}

/// The state of the files after the last look.
#[derive(Debug)]
pub(super) struct Loader(Vec<LocationFile>);

/// One file.
#[derive(Debug)]
struct LocationFile {
    path: PathBuf,
    database: LocationDatabase,
    /// Identity and version of the file that was read last.
    version: Option<Version>,
    /// What is in use.
    content: Option<Arc<Database>>,
    fault: Option<Fault>,
}

/// What changes when a file is replaced or written: device, inode, length and time.
type Version = (u64, u64, u64, Option<SystemTime>);

/// Why a file cannot be used.
#[derive(Debug)]
enum Fault {
    Unreadable(io::Error),
    Damaged(MaxMindDbError),
}

impl Loader {
    pub(super) fn new(files: &LocationFiles) -> Self {
        let file = |edition: &String| {
            let database = LocationDatabase::of_edition(edition)?;
            let path = files.folder.join(format!("{edition}.mmdb"));
            Some(LocationFile { path, database, version: None, content: None, fault: None })
        };
        Self(files.editions.iter().filter_map(file).collect())
    }

    /// Reads the files that have changed, and puts them in use. Blocks.
    pub(super) fn look(&mut self, locations: &Locations) {
        // Every file is looked at, also behind one that has changed.
        let changed = self.0.iter_mut().map(LocationFile::look).filter(|changed| *changed).count();
        if changed > 0 {
            let used = |file: &LocationFile| Some((file.database, file.content.clone()?));
            locations.replace(self.0.iter().filter_map(used).collect());
        }
    }

    /// Returns the problems of the files.
    pub(super) fn problems(&self) -> Vec<Problem> {
        self.0.iter().filter_map(LocationFile::problem).collect()
    }
}

impl LocationFile {
    /// Returns whether another content is to be used.
    fn look(&mut self) -> bool {
        let version = match fs::metadata(&self.path) {
            Ok(metadata) => version(&metadata),
            Err(error) => {
                self.version = None;
                self.fault = Some(Fault::Unreadable(error));
                return false;
            }
        };
        if self.version == Some(version) {
            return false;
        }
        self.version = Some(version);
        match read(&self.path) {
            Ok(database) => {
                tracing::info!(file = %self.path.display(), built = database.built(), "a GeoIP2 database is in use");
                self.content = Some(Arc::new(database));
                self.fault = None;
                true
            }
            Err(fault) => {
                self.fault = Some(fault);
                false
            }
        }
    }

    fn problem(&self) -> Option<Problem> {
        let fault = self.fault.as_ref()?;
        let effect = match self.content {
            Some(_) => "the content that was read before stays in use",
            None => "its variables are empty, and lists of countries that need it refuse all clients",
        };
        Some(Problem {
            object: ObjectRef::new("File", "", &self.path.to_string_lossy()),
            field: String::new(),
            uid: None,
            severity: Severity::Error,
            code: Code::LocationDatabaseUnusable,
            message: format!("{fault}; {effect}"),
            remedy: "put the database there, whole and by renaming, or remove its edition from --maxmind-edition-ids; \
                     it is read within seconds"
                .into(),
        })
    }
}

fn read(path: &Path) -> Result<Database, Fault> {
    Database::read(fs::read(path).map_err(Fault::Unreadable)?).map_err(Fault::Damaged)
}

fn version(metadata: &fs::Metadata) -> Version {
    (metadata.dev(), metadata.ino(), metadata.len(), metadata.modified().ok())
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) if error.kind() == io::ErrorKind::NotFound => {
                f.write_str("the GeoIP2 database does not exist")
            }
            Self::Unreadable(error) => write!(f, "the GeoIP2 database cannot be read: {error}"),
            Self::Damaged(error) => write!(f, "the file is no GeoIP2 database, or is damaged: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use sluice_config::LocationVariable;
    use sluice_testing::mmdb;

    use super::*;
    use crate::location::Country;

    fn country(locations: &Locations) -> Country {
        locations.country([192, 0, 2, 1].into())
    }

    #[test]
    fn a_damaged_file_leaves_the_content_before_it_in_use() {
        let folder = tempfile::tempdir().unwrap();
        let files =
            LocationFiles { folder: folder.path().to_owned(), editions: vec!["GeoLite2-Country".into()] };
        let locations = Locations::default();
        locations.set_files(files);
        locations.switch(true);
        assert_eq!(country(&locations), Country::NoDatabase);
        assert!(locations.look()[0].message.contains("does not exist"));

        let path = folder.path().join("GeoLite2-Country.mmdb");
        let germany = mmdb::country("192.0.2.0/24", "DE");
        fs::write(&path, &germany).unwrap();
        let problems = locations.look();
        assert_eq!(country(&locations), Country::Known("DE".parse().unwrap()));
        assert_eq!(locations.country([198, 51, 100, 1].into()), Country::Unknown);
        assert_eq!(problems, []);

        fs::write(&path, &germany[..germany.len() / 2]).unwrap();
        let problems = locations.look();
        assert_eq!(country(&locations), Country::Known("DE".parse().unwrap()));
        assert!(problems[0].message.contains("stays in use"), "{problems:?}");

        fs::write(&path, mmdb::country("192.0.2.0/24", "FR")).unwrap();
        assert_eq!(locations.look(), []);
        assert_eq!(country(&locations), Country::Known("FR".parse().unwrap()));
        locations.switch(false);
        assert_eq!(country(&locations), Country::NoDatabase);
    }

    #[test]
    fn variables_are_read_from_the_database_of_their_edition() {
        let folder = tempfile::tempdir().unwrap();
        let files = LocationFiles {
            folder: folder.path().to_owned(),
            editions: vec!["GeoLite2-City".into(), "GeoIP2-Anonymous-IP".into()],
        };
        fs::write(
            folder.path().join("GeoLite2-City.mmdb"),
            mmdb::city("2001:db8::/32", "CH", "Zürich", 47.37),
        )
        .unwrap();
        fs::write(folder.path().join("GeoIP2-Anonymous-IP.mmdb"), mmdb::country("192.0.2.0/24", "FR"))
            .unwrap();
        let locations = Locations::default();
        locations.set_files(files);
        locations.switch(true);
        assert_eq!(locations.look(), []);
        let value = |variable, client: &str| {
            let mut text = Vec::new();
            locations.with_value(variable, client.parse().unwrap(), |value| text.extend_from_slice(value))?;
            Some(String::from_utf8(text).unwrap())
        };
        for (variable, client, expected) in [
            (LocationVariable::City, "2001:db8::1", Some("Zürich")),
            (LocationVariable::CityCountryCode, "2001:db8::1", Some("CH")),
            (LocationVariable::Latitude, "2001:db8::1", Some("47.37000")),
            (LocationVariable::RegionCode, "2001:db8::1", None),
            (LocationVariable::City, "2001:db9::1", None),
            // Its database is not in use.
            (LocationVariable::CountryCode, "2001:db8::1", None),
            // The default of ingress-nginx's template.
            (LocationVariable::IsTorExit, "192.0.2.1", Some("0")),
            (LocationVariable::IsAnon, "192.0.2.1", None),
        ] {
            assert_eq!(value(variable, client).as_deref(), expected, "{variable:?} of {client}");
        }
    }
}
