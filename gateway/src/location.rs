//! What GeoIP2 databases say about the address of a client (ingress-nginx `use-geoip2`).
//!
//! A database is read into memory as a whole, never mapped: a mapped file that is truncated while
//! it is replaced would end the process. Values are looked up when a variable or a list of
//! countries needs them, so a request that needs none pays nothing.

mod database;
mod loader;
mod value;

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use arc_swap::ArcSwap;
use sluice_config::{Code, CountryCode, LocationDatabase, LocationVariable, ObjectRef, Problem, Severity};
use tokio::sync::Notify;

use self::database::Database;
pub(crate) use self::loader::LOOK;
use self::loader::Loader;
pub use self::loader::LocationFiles;

/// The databases in use.
#[derive(Debug, Default)]
pub struct Locations {
    databases: ArcSwap<Vec<(LocationDatabase, Arc<Database>)>>,
    files: OnceLock<LocationFiles>,
    /// `None` while no databases are to be used.
    loader: Mutex<Option<Loader>>,
    /// A list of countries refused a client because no database has countries.
    missed: AtomicBool,
    reports: Notify,
}

/// What is known about the country of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Country {
    /// The databases say that it is this one.
    Known(CountryCode),
    /// The databases have no country for the address.
    Unknown,
    /// No database with countries is in use.
    NoDatabase,
}

impl Locations {
    /// Sets the files that databases are read from; only the first call counts.
    pub(crate) fn set_files(&self, files: LocationFiles) {
        // They come from flags, which do not change.
        let _ = self.files.set(files);
    }

    /// Starts or stops to use databases. To start reads them, so that requests that follow have
    /// them; this blocks.
    pub(crate) fn switch(&self, on: bool) {
        let mut loader = self.loader();
        match (&*loader, on, self.files.get()) {
            (None, true, Some(files)) => loader.insert(Loader::new(files)).look(self),
            (Some(_), false, _) => {
                *loader = None;
                self.replace(Vec::new());
            }
            _ => {}
        }
    }

    /// Reads the files that have changed, and returns all problems. Blocks.
    pub(crate) fn look(&self) -> Vec<Problem> {
        let mut loader = self.loader();
        let files = loader.as_mut().map(|loader| {
            loader.look(self);
            loader.problems()
        });
        files.into_iter().flatten().chain(self.problem()).collect()
    }

    fn loader(&self) -> MutexGuard<'_, Option<Loader>> {
        // A look that panicked leaves files that are read again.
        self.loader.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records that a client was refused for lack of a database.
    pub(crate) fn miss(&self) {
        if !self.missed.swap(true, Relaxed) {
            self.reports.notify_one();
        }
    }

    /// Waits for the first such client since the last call.
    pub(crate) async fn missed(&self) {
        self.reports.notified().await;
    }

    /// Returns the problem that clients were refused for lack of a database.
    fn problem(&self) -> Option<Problem> {
        if self.has_countries() {
            self.missed.store(false, Relaxed);
        }
        self.missed.load(Relaxed).then(|| Problem {
            object: ObjectRef::new("GeoIP2", "", "countries"),
            field: "use-geoip2".into(),
            uid: None,
            severity: Severity::Error,
            code: Code::LocationDatabaseUnusable,
            message: "no database with countries is in use, so lists of countries refuse all clients with 403".into(),
            remedy: "set use-geoip2 to true in the ConfigMap and provide GeoLite2-Country or GeoLite2-City, or remove \
                     sluice.dev/allow-countries and sluice.dev/deny-countries from the Ingresses"
                .into(),
        })
    }

    fn has_countries(&self) -> bool {
        self.databases.load().iter().any(|(kind, _)| kind.has_countries())
    }

    /// Replaces the databases. Of two with the same variable, the first counts.
    fn replace(&self, databases: Vec<(LocationDatabase, Arc<Database>)>) {
        self.databases.store(Arc::new(databases));
    }

    /// Passes the value of a variable for this client to `write`; `None` if there is none.
    pub(crate) fn with_value(
        &self,
        variable: LocationVariable,
        client: IpAddr,
        write: impl FnOnce(&[u8]),
    ) -> Option<()> {
        let databases = self.databases.load();
        let (source, database) = variable.sources().iter().find_map(|source| {
            let (_, database) = databases.iter().find(|(kind, _)| *kind == source.database)?;
            Some((source, database))
        })?;
        match database.value(client, source.path) {
            Some(value) => write(value.text().as_bytes()),
            None if source.default.is_empty() => return None,
            None => write(source.default.as_bytes()),
        }
        Some(())
    }

    /// Returns the country of an address.
    pub fn country(&self, client: IpAddr) -> Country {
        let databases = self.databases.load();
        match databases.iter().find(|(kind, _)| kind.has_countries()) {
            None => Country::NoDatabase,
            Some((_, database)) => database.country(client).map_or(Country::Unknown, Country::Known),
        }
    }
}
