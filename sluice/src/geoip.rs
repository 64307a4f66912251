//! Downloads GeoIP2 databases at the start (`--maxmind-license-key`, `--maxmind-mirror`), as
//! ingress-nginx does.

use std::fs;
use std::io::{self, BufReader, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use flate2::read::GzDecoder;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty};
use hyper_rustls::HttpsConnectorBuilder;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use rustls::crypto::aws_lc_rs;
use tar::Archive;
use tempfile::NamedTempFile;
use tokio::time;
use tower::ServiceExt;
use tower_http::follow_redirect::FollowRedirect;

use crate::flags::GeoipFlags;

/// Time for which the start waits for databases that do not exist yet. A rollout then refuses no
/// client for lack of a database.
const WAIT: Duration = Duration::from_secs(30);
/// Time limit for one edition.
const TIME_LIMIT: Duration = Duration::from_secs(180);
/// Maximum size of a database and of its archive; those of cities have about 70 MB.
const MAX_BYTES: u64 = 1 << 30;
/// By how much the delay between two attempts grows, as in ingress-nginx.
const GROWTH: f64 = 1.5;

/// Downloads the databases if a flag requests it. Waits for those that do not exist yet; existing
/// ones are replaced meanwhile.
pub(crate) async fn download(flags: &GeoipFlags) {
    let Some(folder) = flags.path.clone() else { return };
    if flags.license_key.is_empty() && flags.mirror.is_empty() {
        return;
    }
    let is_missing = flags.editions.iter().any(|edition| !file(&folder, edition).exists());
    let flags = flags.clone();
    let all = tokio::spawn(async move {
        for edition in &flags.editions {
            with_attempts(&flags, &folder, edition).await;
        }
    });
    if !is_missing {
        return;
    }
    tracing::info!(limit = ?WAIT, "the start waits for the GeoIP2 databases, which are being downloaded");
    if time::timeout(WAIT, all).await.is_err() {
        tracing::warn!("the GeoIP2 databases are still being downloaded; serving starts without them");
    }
}

fn file(folder: &Path, edition: &str) -> PathBuf {
    folder.join(format!("{edition}.mmdb"))
}

async fn with_attempts(flags: &GeoipFlags, folder: &Path, edition: &str) {
    // As in ingress-nginx: without a delay there is one attempt.
    let attempts = if flags.retries_timeout.is_zero() { 1 } else { flags.retries_count.max(1) };
    let mut delay = flags.retries_timeout;
    for attempt in 1..=attempts {
        let result = match time::timeout(TIME_LIMIT, one(flags, folder, edition)).await {
            Ok(result) => result,
            Err(_) => Err(anyhow::anyhow!("no end within {} s", TIME_LIMIT.as_secs())),
        };
        match result {
            Ok(()) => {
                tracing::info!(edition, "a GeoIP2 database was downloaded");
                return;
            }
            Err(error) => {
                let error = format!("{error:#}");
                tracing::error!(edition, attempt, attempts, error, "a GeoIP2 database cannot be downloaded");
            }
        }
        if attempt < attempts {
            time::sleep(delay).await;
            delay = delay.mul_f64(GROWTH);
        }
    }
}

/// Downloads one database and puts it in place.
async fn one(flags: &GeoipFlags, folder: &Path, edition: &str) -> Result<()> {
    fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let connector = HttpsConnectorBuilder::new()
        .with_provider_and_native_roots(aws_lc_rs::default_provider())
        .context("cannot read the certificates of public authorities")?
        .https_or_http()
        .enable_http1()
        .build();
    let client = FollowRedirect::new(Client::builder(TokioExecutor::new()).build(connector));
    let request =
        Request::get(url(flags, edition)).body(Empty::<Bytes>::new()).context("the URL is invalid")?;
    // The error of the client contains no URL, which may contain the key.
    let response = client.oneshot(request).await?;
    match response.status() {
        StatusCode::OK => {}
        StatusCode::UNAUTHORIZED => bail!("status 401: --maxmind-license-key is not valid for this edition"),
        status => bail!("status {status}"),
    }
    let mut archive = NamedTempFile::new_in(folder).context("the folder is not writable")?;
    let mut body = response.into_body();
    let mut length = 0;
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame?.into_data() {
            length += data.len() as u64;
            if length > MAX_BYTES {
                bail!("more than {MAX_BYTES} bytes");
            }
            archive.write_all(&data)?;
        }
    }
    let (folder, edition) = (folder.to_owned(), edition.to_owned());
    tokio::task::spawn_blocking(move || unpack(archive, &folder, &edition)).await?
}

/// Returns the URL of an archive.
fn url(flags: &GeoipFlags, edition: &str) -> String {
    let GeoipFlags { mirror, license_key, .. } = flags;
    match mirror.is_empty() {
        true => format!(
            "https://download.maxmind.com/app/geoip_download?license_key={license_key}&edition_id={edition}&suffix=tar.gz"
        ),
        false => format!("{}/{edition}.tar.gz", mirror.trim_end_matches('/')),
    }
}

/// Moves the database out of its archive to its place, whole.
fn unpack(mut archive: NamedTempFile, folder: &Path, edition: &str) -> Result<()> {
    archive.rewind()?;
    let mut entries = Archive::new(GzDecoder::new(BufReader::new(archive)));
    let name = format!("{edition}.mmdb");
    for entry in entries.entries().context("the archive is damaged")? {
        let entry = entry.context("the archive is damaged")?;
        if !entry.path()?.ends_with(&name) {
            continue;
        }
        let mut database = NamedTempFile::new_in(folder)?;
        let copied = io::copy(&mut io::Read::take(entry, MAX_BYTES), &mut database)?;
        if copied == MAX_BYTES {
            bail!("more than {MAX_BYTES} bytes");
        }
        database.persist(file(folder, edition))?;
        return Ok(());
    }
    bail!("the archive contains no {name}")
}
