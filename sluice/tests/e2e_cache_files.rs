//! `--cache-path`: bodies of stored responses in files.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

use tempfile::TempDir;

use crate::e2e_cache::{HOST, manifests};
use crate::harness::client::Response;
use crate::harness::h2::{self, run};
use crate::harness::wire::Message;
use crate::harness::{Backend, Connection, Folder, Gateway, Reply, await_until, config_map};

const LARGE: usize = 3_000_000;
/// Bytes of a body that have one hash.
const PIECE: usize = 64 * 1024;
/// Memory for a few small responses; files for all of them, and for a large one.
const KEYS: &[(&str, &str)] = &[("cache-size", "128k"), ("cache-file-size", "64m")];

/// The body that the backend sends: of `X-Size` bytes, which differ by path.
fn body(path: &str, size: usize) -> String {
    let shift = path.bytes().map(usize::from).sum::<usize>();
    (0..size).map(|at| char::from(b'a' + ((at / 5 + shift) % 23) as u8)).collect()
}

fn respond(request: &Message) -> Reply {
    let path = request.start.split(' ').nth(1).unwrap_or_default();
    let size = request.header("x-size").map_or(8_000, |size| size.parse().unwrap());
    let fields = [("Cache-Control", "max-age=600"), ("ETag", "\"a\"")];
    let body = body(path, size);
    match request.header("x-chunked") {
        Some(_) => {
            let head = "HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nTransfer-Encoding: chunked\r\n\r\n";
            Reply::Bytes(format!("{head}{size:x}\r\n{body}\r\n0\r\n\r\n").into_bytes())
        }
        None => {
            let fields = fields.map(|(name, value)| (name.to_owned(), value.to_owned()));
            Reply::Answer(200, fields.into(), body)
        }
    }
}

fn serve(folder: &Folder, files: &TempDir) -> Gateway {
    let path = files.path().to_str().unwrap();
    Gateway::with(folder, &["--configmap", "system/settings", "--cache-path", path])
}

/// A gateway with the folder of its files.
struct Caching {
    gateway: Gateway,
    files: TempDir,
    folder: Folder,
}

fn start(backend: &Backend, keys: &[(&str, &str)]) -> Caching {
    let (folder, files) = (manifests(backend, &[], keys), tempfile::tempdir().unwrap());
    Caching { gateway: serve(&folder, &files), files, folder }
}

impl Caching {
    fn get(&self, path: &str, fields: &[(&str, &str)]) -> Response {
        Connection::plain(self.gateway.http).request("GET", HOST, path, fields, "")
    }

    /// Requests a large body.
    fn large(&self, path: &str) -> Response {
        self.get(path, &[("X-Size", &LARGE.to_string())])
    }

    /// Requests a large body, and waits until it is stored.
    fn store_large(&self, path: &str) {
        let before = self.entries();
        assert_eq!(self.large(path).header("x-cache"), Some("MISS"));
        await_until("the stored response", || self.entries() == before + 1);
    }

    fn entries(&self) -> u64 {
        self.gateway.metric("sluice_cache_file_entries")
    }

    fn errors(&self, error: &str) -> u64 {
        self.gateway.metric(&format!("sluice_cache_file_errors_total{{error=\"{error}\"}}"))
    }

    /// The files of bodies.
    fn on_disk(&self) -> Vec<PathBuf> {
        on_disk(&self.files)
    }
}

fn on_disk(files: &TempDir) -> Vec<PathBuf> {
    let all = fs::read_dir(files.path()).unwrap().map(|entry| entry.unwrap().path());
    let mut all: Vec<_> = all.filter(|path| path.extension().is_none()).collect();
    all.sort();
    all
}

#[track_caller]
fn assert_is(response: &Response, cache: &str, body: &str) {
    assert_eq!((response.status, response.header("x-cache")), (200, Some(cache)));
    // Not printed: it is large.
    assert!(response.text() == body, "another body of {} bytes", response.body().len());
}

#[test]
fn a_response_too_large_for_memory_is_sent_from_a_file() {
    let backend = Backend::with("shop", respond);
    let caching = start(&backend, KEYS);
    let content = body("/large", LARGE);
    assert_is(&caching.large("/large"), "MISS", &content);
    await_until("the stored response", || caching.entries() == 1);
    for _ in 0..2 {
        assert_is(&caching.large("/large"), "HIT", &content);
    }
    let [file] = &caching.on_disk()[..] else { panic!() };
    let metadata = fs::metadata(file).unwrap();
    assert_eq!((metadata.mode() & 0o777, metadata.len()), (0o600, LARGE as u64));
    assert_eq!(caching.gateway.metric("sluice_cache_file_bytes"), LARGE.next_multiple_of(4096) as u64);
    assert_eq!(caching.gateway.metric("sluice_cache_file_limit_bytes"), 64 << 20);
    assert!(caching.gateway.metric("sluice_cache_bytes") < 8192, "its body is not in memory");

    let head = Connection::plain(caching.gateway.http).request("HEAD", HOST, "/large", &[], "");
    assert_eq!((head.header("x-cache"), head.header("content-length")), (Some("HIT"), Some("3000000")));
    assert_eq!(caching.get("/large", &[("If-None-Match", "\"a\"")]).status, 304);
    for (range, bytes) in [
        ("bytes=0-9", 0..10),
        ("bytes=65530-65545", PIECE - 6..PIECE + 10),
        ("bytes=1000000-", 1_000_000..LARGE),
        ("bytes=-70000", LARGE - 70_000..LARGE),
    ] {
        let response = caching.get("/large", &[("Range", range)]);
        assert_eq!((response.status, response.header("x-cache")), (206, Some("HIT")), "{range}");
        assert!(response.text() == content[bytes], "{range}");
    }
    assert_eq!(caching.get("/large", &[("Range", "bytes=3000000-")]).status, 416);
    let parts = caching.get("/large", &[("Range", "bytes=0-9,2999990-2999999")]).text();
    assert!(parts.contains(&content[..10]) && parts.contains(&content[LARGE - 10..]), "{parts}");

    let chunked = [("X-Size", "200000"), ("X-Chunked", "1")];
    let content = body("/chunked", 200_000);
    assert_is(&caching.get("/chunked", &chunked), "MISS", &content);
    await_until("the other response", || caching.entries() == 2);
    assert_is(&caching.get("/chunked", &chunked), "HIT", &content);
    assert_eq!(backend.requests(), 2);
}

#[test]
fn clients_of_http_2_and_slow_ones_are_served_from_files() {
    let backend = Backend::with("shop", respond);
    let caching = start(&backend, KEYS);
    let content = body("/", LARGE);
    run(async {
        let connection = h2::Connection::tls(caching.gateway.https, HOST).await;
        for cache in ["MISS", "HIT", "HIT"] {
            let request = http::Request::get(format!("https://{HOST}/")).header("x-size", LARGE);
            let response = connection.send(request.body(()).unwrap(), "").await.unwrap();
            assert_eq!(response.headers()["x-cache"], cache);
            assert!(response.body()[..] == *content.as_bytes());
            await_until("the stored response", || caching.entries() == 1);
        }
    });
    let mut slow = Connection::tls(caching.gateway.https, HOST);
    slow.send(format!("GET / HTTP/1.1\r\nHost: {HOST}\r\nConnection: close\r\n\r\n"));
    let begin = slow.bytes(100);
    // A file that is being read stays readable after its response has left.
    let purge = [("Connection", "close")];
    let purged = Connection::plain(caching.gateway.admin).request(
        "DELETE",
        "localhost",
        "/cache?all=true",
        &purge,
        "",
    );
    assert_eq!(purged.json()["removed"], 1);
    let response = [begin, slow.rest()].concat();
    assert!(response.ends_with(content.as_bytes()));
    await_until("the space", || caching.gateway.metric("sluice_cache_file_bytes") == 0);
    assert!(caching.on_disk().is_empty());
}

#[test]
fn responses_that_memory_has_no_room_for_move_to_files() {
    let backend = Backend::with("shop", respond);
    let caching = start(&backend, KEYS);
    let paths: Vec<_> = (0..30).map(|number| format!("/{number}")).collect();
    let stored = || caching.gateway.metric("sluice_cache_responses");
    for (number, path) in paths.iter().enumerate() {
        assert_is(&caching.get(path, &[]), "MISS", &body(path, 8_000));
        await_until("the stored response", || stored() > number as u64);
        // One body at a time moves, so that none has to leave.
        await_until("the moves", || caching.gateway.metric("sluice_cache_bytes") <= 112 << 10);
    }
    for path in &paths {
        assert_is(&caching.get(path, &[]), "HIT", &body(path, 8_000));
    }
    assert_eq!(caching.gateway.metric("sluice_cache_evictions_total"), 0);
    assert!(caching.entries() >= 15 && caching.on_disk().len() as u64 == caching.entries());
    assert_eq!(backend.requests(), 30);

    let purge = |query: &str| {
        let fields = [("Connection", "close")];
        let target = format!("/cache?{query}");
        let response =
            Connection::plain(caching.gateway.admin).request("DELETE", "localhost", &target, &fields, "");
        response.json()["removed"].clone()
    };
    let before = caching.entries();
    assert_eq!(purge("path=/0"), 1);
    assert_eq!(caching.entries(), before - 1, "the first ones are in files");
    await_until("the removal", || caching.on_disk().len() as u64 == before - 1);
    assert_is(&caching.get("/0", &[]), "MISS", &body("/0", 8_000));
    await_until("the response", || stored() == 30);
    assert_eq!(purge(&format!("host={HOST}")), 30);
    await_until("the removal of all", || caching.on_disk().is_empty());
    assert_eq!(caching.gateway.metric("sluice_cache_file_bytes"), 0);
}

#[test]
fn files_stay_within_their_limit_and_can_be_switched_off() {
    let backend = Backend::with("shop", respond);
    // An eighth of it is the maximum of a response.
    let caching = start(&backend, &[("cache-size", "128k"), ("cache-file-size", "24m")]);
    let evictions = || caching.gateway.metric("sluice_cache_evictions_total");
    for number in 0..10_u64 {
        caching.large(&format!("/{number}"));
        await_until("the stored response", || {
            let stored = caching.gateway.metric("sluice_cache_responses");
            (stored, evictions()) == (u64::min(number + 1, 8), number.saturating_sub(7))
        });
        assert!(caching.gateway.metric("sluice_cache_file_bytes") <= 24 << 20);
    }
    assert_eq!(caching.large("/9").header("x-cache"), Some("HIT"));
    let too_large = [("X-Size", "3300000")];
    for _ in 0..2 {
        assert_is(&caching.get("/too-large", &too_large), "MISS", &body("/too-large", 3_300_000));
    }
    let write = |keys| caching.folder.write("config.yaml", config_map("system/settings", keys));
    write(&[("cache-size", "128k"), ("cache-file-size", "0")]);
    await_until("no files", || caching.on_disk().is_empty());
    assert_eq!(caching.large("/9").header("x-cache"), Some("MISS"));
    write(KEYS);
    await_until("files again", || caching.gateway.metric("sluice_cache_file_limit_bytes") == 64 << 20);
    caching.store_large("/again");
    write(&[("cache-size", "0"), ("cache-file-size", "64m")]);
    await_until("no cache", || caching.on_disk().is_empty());
    assert_eq!(caching.large("/again").header("x-cache"), Some("BYPASS"));
}

#[test]
fn a_damaged_file_is_never_sent_as_a_good_response() {
    let backend = Backend::with("shop", respond);
    let caching = start(&backend, KEYS);
    let content = body("/", LARGE);
    let damage = |at: usize| {
        let [file] = &caching.on_disk()[..] else { panic!() };
        let file = fs::OpenOptions::new().write(true).open(file).unwrap();
        file.write_all_at(b"?", at as u64).unwrap();
    };
    let is_stored_again = || caching.entries() == 1 && caching.on_disk().len() == 1;
    caching.store_large("/");
    assert_is(&caching.large("/"), "HIT", &content);
    damage(10);
    assert_is(&caching.large("/"), "MISS", &content);
    await_until("another file", is_stored_again);
    assert_is(&caching.large("/"), "HIT", &content);
    assert_eq!(caching.errors("damage"), 1);

    damage(10 * PIECE + 10);
    let range = [("Range", "bytes=655400-655499"), ("X-Size", &LARGE.to_string())];
    // Its client stays until the whole response is stored.
    let mut client = Connection::plain(caching.gateway.http);
    let part = client.request("GET", HOST, "/", &range, "");
    assert_eq!((part.status, part.header("x-cache")), (206, Some("MISS")), "its first piece is damaged");
    assert!(part.text() == content[655_400..655_500]);
    await_until("another file", is_stored_again);
    assert_eq!(caching.errors("damage"), 2);

    damage(20 * PIECE + 10);
    client.send(format!("GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n"));
    let response = String::from_utf8(client.rest()).unwrap();
    let (head, sent) = response.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("Content-Length: 3000000") || head.contains("content-length: 3000000"), "{head}");
    assert!(content[..20 * PIECE].starts_with(sent), "only what was compared is sent: {}", sent.len());
    assert_eq!(caching.errors("damage"), 3);
    caching.store_large("/");

    // It is cut off.
    let [file] = &caching.on_disk()[..] else { panic!() };
    fs::OpenOptions::new().write(true).open(file).unwrap().set_len(100).unwrap();
    assert_is(&caching.large("/"), "MISS", &content);
    await_until("another file", is_stored_again);
    assert_eq!(caching.errors("damage"), 4);
    assert_eq!((caching.errors("read"), caching.errors("write")), (0, 0));
    assert!(caching.gateway.problems().is_empty(), "{}", caching.gateway.problems());
}

#[test]
fn a_damaged_file_resets_a_stream_of_http_2() {
    let backend = Backend::with("shop", respond);
    let caching = start(&backend, KEYS);
    run(async {
        let connection = h2::Connection::tls(caching.gateway.https, HOST).await;
        let uri = format!("https://{HOST}/");
        let request = || http::Request::get(&uri).header("x-size", LARGE).body(()).unwrap();
        connection.send(request(), "").await.unwrap();
        await_until("the stored response", || caching.entries() == 1);
        let [file] = &caching.on_disk()[..] else { panic!() };
        let file = fs::OpenOptions::new().write(true).open(file).unwrap();
        file.write_all_at(b"?", 30 * PIECE as u64).unwrap();
        assert!(connection.send(request(), "").await.is_err(), "it has no good end");
        let response = connection.send(request(), "").await.unwrap();
        assert_eq!(response.headers()["x-cache"], "MISS", "the connection and the gateway go on");
    });
    assert_eq!(caching.errors("damage"), 1);
}

#[test]
fn a_restart_begins_with_an_empty_folder() {
    let backend = Backend::with("shop", respond);
    let caching = start(&backend, KEYS);
    caching.store_large("/");
    let second = serve(&caching.folder, &caching.files);
    await_until("the problem", || second.problems().contains("another process"));
    assert_eq!(caching.large("/").header("x-cache"), Some("HIT"), "the second process leaves them alone");
    drop(second);
    let Caching { gateway, files, folder } = caching;
    drop(gateway);
    assert_eq!(on_disk(&files).len(), 1, "a process that is killed leaves its files");
    let caching = Caching { gateway: serve(&folder, &files), files, folder };
    assert!(caching.on_disk().is_empty());
    assert!(caching.gateway.problems().is_empty(), "{}", caching.gateway.problems());
    caching.store_large("/");
}

#[test]
fn a_folder_with_other_content_is_refused() {
    let backend = Backend::with("shop", respond);
    let (folder, files) = (manifests(&backend, &[], KEYS), tempfile::tempdir().unwrap());
    fs::write(files.path().join("photo.jpg"), "a photo").unwrap();
    let caching = Caching { gateway: serve(&folder, &files), files, folder };
    await_until("the problem", || caching.gateway.problems().contains("photo.jpg"));
    assert_eq!(fs::read_dir(caching.files.path()).unwrap().count(), 1, "nothing is created or removed");
    assert_eq!(caching.get("/", &[]).header("x-cache"), Some("MISS"));
    await_until("the response in memory", || caching.gateway.metric("sluice_cache_responses") == 1);
    assert_eq!(caching.get("/", &[]).header("x-cache"), Some("HIT"));
}

#[test]
fn a_disk_that_fails_leaves_responses_in_memory() {
    let backend = Backend::with("shop", respond);
    let caching = start(&backend, KEYS);
    caching.store_large("/stored");
    fs::remove_dir_all(caching.files.path()).unwrap();
    let content = body("/large", LARGE);
    assert_is(&caching.large("/large"), "MISS", &content);
    await_until("the problem", || {
        caching.gateway.problems().contains("--cache-path: Sluice cannot write it")
    });
    assert!(caching.gateway.problems().contains("responses are stored in memory only"));
    assert_eq!(caching.errors("write"), 1);
    assert_is(&caching.large("/stored"), "MISS", &body("/stored", LARGE));
    assert_is(&caching.get("/small", &[]), "MISS", &body("/small", 8_000));
    await_until("the response in memory", || caching.get("/small", &[]).header("x-cache") == Some("HIT"));

    // The folder is used again some seconds after it works again.
    fs::create_dir(caching.files.path()).unwrap();
    let mut number = 0;
    await_until("a response in a file", || {
        number += 1;
        caching.get(&format!("/{number}"), &[("X-Size", "40000")]);
        !caching.on_disk().is_empty()
    });
    await_until("no problem", || caching.gateway.problems().is_empty());
}
