//! Files hold what was written, and notice what was not.

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::PathBuf;

use sluice_testing::wait::await_until;

use super::*;

fn files(limit: u64) -> (tempfile::TempDir, Arc<Files>) {
    let folder = tempfile::tempdir().unwrap();
    let files = Files::open(folder.path()).unwrap();
    files.set_limit(limit);
    (folder, files)
}

fn body(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at / 7) as u8).collect()
}

fn write(files: &Arc<Files>, body: &[u8], portion: usize) -> BodyFile {
    let mut writer = files.create().unwrap();
    for part in body.chunks(portion) {
        assert!(writer.write(part, || false).unwrap());
    }
    writer.finish()
}

fn path(folder: &tempfile::TempDir) -> PathBuf {
    let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    names.filter(|path| path.extension().is_none()).max().unwrap()
}

#[test]
fn a_body_is_read_in_pieces_however_it_was_written() {
    let (folder, files) = files(1 << 20);
    for length in [1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE, 200_000] {
        let body = body(length);
        for portion in [1000, PIECE, length] {
            let file = write(&files, &body, portion);
            assert_eq!(file.length(), length as u64);
            let open = file.open().unwrap();
            for (index, piece) in body.chunks(PIECE).enumerate().rev() {
                assert!(file.piece(&open, index).unwrap() == piece, "{length} {portion} {index}");
            }
            assert!(matches!(file.piece(&open, length.div_ceil(PIECE)), Err(PieceError::Damaged)));
            assert_eq!(fs::metadata(path(&folder)).unwrap().mode() & 0o777, 0o600);
            file.remove();
            assert_eq!(files.used(), 0);
        }
    }
}

#[test]
fn a_damaged_piece_is_no_part_of_a_response() {
    let (folder, files) = files(1 << 20);
    let file = write(&files, &body(3 * PIECE), PIECE);
    let open = file.open().unwrap();
    let disk = fs::OpenOptions::new().write(true).open(path(&folder)).unwrap();
    disk.write_all_at(b"?", PIECE as u64 + 10).unwrap();
    assert!(file.piece(&open, 0).is_ok() && file.piece(&open, 2).is_ok());
    assert!(matches!(file.piece(&open, 1), Err(PieceError::Damaged)));
    disk.set_len(2 * PIECE as u64 + 5).unwrap();
    assert!(matches!(file.piece(&open, 2), Err(PieceError::Damaged)), "it is cut off");
    fs::remove_file(path(&folder)).unwrap();
    assert!(file.piece(&open, 0).is_ok(), "what is open can be read");
    assert_eq!(file.open().unwrap_err().kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn files_stay_within_their_limit() {
    let (folder, files) = files(8192);
    let first = write(&files, &body(100), 100);
    assert_eq!(files.used(), 4096, "a block is the unit");
    let mut first = Some(first);
    let mut second = files.create().unwrap();
    assert!(!second.write(&body(8000), || false).unwrap());
    let make_room = || first.take().map(BodyFile::remove).is_some();
    assert!(second.write(&body(8000), make_room).unwrap());
    assert_eq!(files.used(), 8192);
    assert!(!second.write(&body(8000), || false).unwrap());
    drop(second);
    await_until("the removal of an incomplete file", || files.used() == 0);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "the lock");
}
