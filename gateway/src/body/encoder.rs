//! Compression of one body, in any coding.
//!
//! Windows are small, because the typical body is a page or document and each open stream holds a
//! window and tables several times as large. Compressors of gzip and zstd are reused by later
//! responses of the worker: creating one costs more than compressing a small document.

use std::cell::RefCell;
use std::io::{self, Write};

use brotli::CompressorWriter;
use brotli::enc::BrotliEncoderParams;
use flate2::{Compress, Compression, FlushCompress, Status};
use zstd::stream::raw::{self, CParameter, InBuffer, Operation, OutBuffer};

use super::coding::Coding;

/// Bytes of idle compressors that a worker keeps.
const KEPT: usize = 4 << 20;
/// Bytes of output that a compressor may produce per step.
const ROOM: usize = 16 * 1024;
/// Window of brotli and zstd as a power of two. gzip's is 15.
const WINDOW: u32 = 18;
/// Bytes that brotli compresses per block, as a power of two. Larger blocks delay other requests
/// longer.
const BLOCK: u32 = 16;
/// Levels of brotli from here to 9 use tables of 8 to 32 MiB that are zeroed for each response and
/// hardly improve the compression of pages. They are compressed at this level instead.
const BROTLI_TABLES: u8 = 6;
/// From this level on, zstd's default tables exceed the window: 10 MiB, and 80 MiB at level 19.
const ZSTD_TABLES: u8 = 7;
/// From this level on, zstd uses two table entries per byte of the window.
const ZSTD_TREES: u8 = 13;

thread_local! {
    static SPARE: RefCell<Vec<(Coding, u8, State)>> = const { RefCell::new(Vec::new()) };
}

/// A compressor together with the body in progress.
pub(crate) struct Encoder {
    coding: Coding,
    level: u8,
    /// `None` once the body is complete.
    state: Option<State>,
    /// Output that was not yet taken.
    out: Vec<u8>,
}

enum State {
    Gzip(Compress),
    Brotli(Box<CompressorWriter<Vec<u8>>>),
    Zstd(raw::Encoder<'static>),
}

impl Encoder {
    pub(crate) fn new(coding: Coding, level: u8) -> io::Result<Self> {
        let spare = SPARE.with_borrow_mut(|spare| {
            let at = spare.iter().position(|(of, at, _)| (*of, *at) == (coding, level))?;
            Some(spare.swap_remove(at).2)
        });
        let state = match spare {
            Some(state) => state,
            None => State::new(coding, level)?,
        };
        Ok(Self { coding, level, state: Some(state), out: Vec::new() })
    }

    pub(crate) fn coding(&self) -> Coding {
        self.coding
    }

    /// Returns the approximate memory in bytes of a compressor for a body of this length.
    pub(crate) fn memory(coding: Coding, level: u8, length: Option<u64>) -> usize {
        const KIB: usize = 1 << 10;
        match coding {
            Coding::Gzip => 384 * KIB,
            Coding::Zstd => match level {
                ..=2 => 1280 * KIB,
                3 => 1792 * KIB,
                4 => 3072 * KIB,
                5..ZSTD_TREES => 3584 * KIB,
                _ => 6144 * KIB,
            },
            Coding::Brotli => {
                let (tables, of_each_byte) = match level {
                    ..=3 => (256 * KIB, 24),
                    4 => (512 * KIB, 24),
                    5 => (1024 * KIB, 24),
                    6..=9 => (2048 * KIB, 24),
                    _ => (2816 * KIB, 84),
                };
                let block = 1 << BLOCK;
                match length.and_then(|length| usize::try_from(length).ok()).filter(|length| *length <= block)
                {
                    Some(length) => tables + of_each_byte * length,
                    None => tables + of_each_byte * block + 1024 * KIB,
                }
            }
        }
    }

    /// Compresses more of the body.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.state {
            Some(state) => state.write(bytes, &mut self.out),
            None => Ok(()),
        }
    }

    /// Produces output for all input so far, so that the client can decode it.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        match &mut self.state {
            Some(state) => state.flush(&mut self.out),
            None => Ok(()),
        }
    }

    /// Completes the body.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        let Some(state) = self.state.take() else { return Ok(()) };
        if let Some(state) = state.finish(&mut self.out)? {
            // The access fails only while the thread ends; the compressor is then dropped.
            let _ = SPARE.try_with(|spare| {
                let mut spare = spare.borrow_mut();
                spare.push((self.coding, self.level, state));
                // The oldest compressors go first: they may belong to a level that is no longer
                // configured.
                while spare.iter().map(|(of, at, _)| Self::memory(*of, *at, None)).sum::<usize>() > KEPT {
                    spare.remove(0);
                }
            });
        }
        Ok(())
    }

    /// Returns the output. The caller sends and clears it.
    pub(crate) fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }
}

impl State {
    fn new(coding: Coding, level: u8) -> io::Result<Self> {
        Ok(match coding {
            Coding::Gzip => Self::Gzip(Compress::new_gzip(Compression::new(zlib_ng_level(level)), 15)),
            Coding::Brotli => {
                let params = BrotliEncoderParams {
                    quality: match level {
                        BROTLI_TABLES..10 => BROTLI_TABLES,
                        level => level,
                    }
                    .into(),
                    lgwin: WINDOW.cast_signed(),
                    lgblock: BLOCK.cast_signed(),
                    ..BrotliEncoderParams::default()
                };
                Self::Brotli(Box::new(CompressorWriter::with_params(Vec::new(), ROOM, &params)))
            }
            Coding::Zstd => {
                let mut encoder = raw::Encoder::new(level.into())?;
                encoder.set_parameter(CParameter::WindowLog(WINDOW))?;
                if level >= ZSTD_TABLES {
                    encoder.set_parameter(CParameter::HashLog(WINDOW + 1))?;
                    let trees = u32::from(level >= ZSTD_TREES);
                    encoder.set_parameter(CParameter::ChainLog(WINDOW + trees))?;
                }
                Self::Zstd(encoder)
            }
        })
    }

    fn write(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Self::Gzip(gzip) => deflate(gzip, bytes, FlushCompress::None, out),
            Self::Brotli(brotli) => {
                brotli.write_all(bytes)?;
                out.append(brotli.get_mut());
                Ok(())
            }
            Self::Zstd(zstd) => {
                let mut input = InBuffer::around(bytes);
                while input.pos() < bytes.len() {
                    step(out, |room| zstd.run(&mut input, room))?;
                }
                Ok(())
            }
        }
    }

    fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        match self {
            Self::Gzip(gzip) => deflate(gzip, &[], FlushCompress::Sync, out),
            Self::Brotli(brotli) => {
                brotli.flush()?;
                out.append(brotli.get_mut());
                Ok(())
            }
            Self::Zstd(zstd) => {
                while step(out, |room| zstd.flush(room))? > 0 {}
                Ok(())
            }
        }
    }

    /// Ends the body and returns the compressor, reset for another one, if its type supports that.
    fn finish(self, out: &mut Vec<u8>) -> io::Result<Option<Self>> {
        match self {
            Self::Gzip(mut gzip) => {
                deflate(&mut gzip, &[], FlushCompress::Finish, out)?;
                gzip.reset();
                Ok(Some(Self::Gzip(gzip)))
            }
            Self::Brotli(brotli) => {
                out.append(&mut brotli.into_inner());
                Ok(None)
            }
            Self::Zstd(mut zstd) => {
                while step(out, |room| zstd.finish(room, true))? > 0 {}
                zstd.reinit()?;
                Ok(Some(Self::Zstd(zstd)))
            }
        }
    }
}

/// Returns the cheapest level of zlib-ng whose output is at most 3 % larger than that of zlib,
/// which nginx uses, at `level`. The levels differ: the output of zlib-ng at level 1 is 1.2 to 1.4
/// times as large.
const fn zlib_ng_level(level: u8) -> u32 {
    match level {
        ..=3 => 2,
        4 => 3,
        5 => 4,
        _ => 6,
    }
}

/// Runs zlib until it has consumed all of `bytes` and has no more output.
fn deflate(gzip: &mut Compress, bytes: &[u8], flush: FlushCompress, out: &mut Vec<u8>) -> io::Result<()> {
    let mut taken = 0;
    loop {
        out.reserve(ROOM);
        let before = gzip.total_in();
        let status = gzip.compress_vec(&bytes[taken..], out, flush).map_err(io::Error::other)?;
        taken += usize::try_from(gzip.total_in() - before).unwrap_or(usize::MAX);
        // Spare output space remains only when the compressor is done.
        let done = taken >= bytes.len() && out.len() < out.capacity();
        if done || status == Status::StreamEnd {
            return Ok(());
        }
    }
}

/// Runs one step of zstd and appends its output to `out`.
fn step(
    out: &mut Vec<u8>,
    run: impl FnOnce(&mut OutBuffer<'_, [u8; ROOM]>) -> io::Result<usize>,
) -> io::Result<usize> {
    let mut room = [0; ROOM];
    let mut buffer = OutBuffer::around(&mut room);
    let left = run(&mut buffer)?;
    out.extend_from_slice(buffer.as_slice());
    Ok(left)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Read;

    use flate2::read::MultiGzDecoder;
    use proptest::prelude::*;
    use sluice_testing::memory;

    use super::*;

    /// Decodes `bytes` as a client would, as far as the stream goes.
    pub(crate) fn decoded(coding: Coding, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        // A truncated stream is an error, but the decoded bytes before it are in `out`.
        let _ = match coding {
            Coding::Gzip => MultiGzDecoder::new(bytes).read_to_end(&mut out),
            Coding::Brotli => brotli::Decompressor::new(bytes, 4096).read_to_end(&mut out),
            Coding::Zstd => zstd::stream::read::Decoder::new(bytes).unwrap().read_to_end(&mut out),
        };
        out
    }

    #[test]
    fn flushed_output_is_decodable() {
        for coding in Coding::ALL {
            let mut encoder = Encoder::new(coding, 3).unwrap();
            encoder.write(b"one event\n").unwrap();
            encoder.flush().unwrap();
            assert_eq!(decoded(coding, encoder.out()), b"one event\n", "{coding:?}");
            encoder.write(b"another\n").unwrap();
            encoder.flush().unwrap();
            assert_eq!(decoded(coding, encoder.out()), b"one event\nanother\n", "{coding:?}");
            encoder.finish().unwrap();
            assert_eq!(decoded(coding, encoder.out()), b"one event\nanother\n", "{coding:?}");
        }
    }

    /// Returns about 200 KB of distinct words.
    fn words() -> Vec<u8> {
        let word = |n: u32| format!("{} of {} routes\n", n.wrapping_mul(2_654_435_761) >> 12, n % 97);
        (0..10_000).flat_map(|n| word(n).into_bytes()).collect()
    }

    #[test]
    fn gzip_sends_at_most_3_percent_more_than_zlib_at_its_level() {
        // Bytes that zlib 1.2.13 sends for `words` at the levels 1 to 9.
        const ZLIB: [usize; 9] = [64_609, 63_095, 62_537, 59_415, 58_314, 55_382, 55_202, 54_625, 54_560];
        let body = words();
        for (level, zlib) in (1..).zip(ZLIB) {
            let mut encoder = Encoder::new(Coding::Gzip, level).unwrap();
            encoder.write(&body).unwrap();
            encoder.finish().unwrap();
            let sent = encoder.out().len();
            assert!(sent * 100 <= zlib * 103, "level {level}: {sent} bytes, zlib {zlib}");
        }
    }

    #[test]
    fn smaller_tables_compress_as_well() {
        let body = words();
        for level in [ZSTD_TABLES, ZSTD_TREES, 19] {
            let mut of_the_level = raw::Encoder::new(level.into()).unwrap();
            of_the_level.set_parameter(CParameter::WindowLog(WINDOW)).unwrap();
            let mut lengths =
                [State::Zstd(of_the_level), State::new(Coding::Zstd, level).unwrap()].map(|mut state| {
                    let mut out = Vec::new();
                    state.write(&body, &mut out).unwrap();
                    state.finish(&mut out).unwrap();
                    out.len()
                });
            lengths[1] = lengths[1] * 100 / 101;
            assert!(lengths[1] <= lengths[0], "level {level}: {lengths:?}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn compressors_take_no_more_than_is_counted_for_them() {
        const COUNT: usize = 10;
        // Allowance for code pages that are touched for the first time, and for the allocator.
        const OTHERS: usize = 16 << 20;
        if !memory::runs_alone("compressors_take_no_more_than_is_counted_for_them") {
            return;
        }
        let resident = || usize::try_from(memory::resident(std::process::id()).unwrap()).unwrap();
        let body = words();
        for (coding, level) in
            [(Coding::Zstd, 12), (Coding::Zstd, 19), (Coding::Brotli, 9), (Coding::Brotli, 11)]
        {
            let before = resident();
            let mut encoders: Vec<_> = (0..COUNT).map(|_| Encoder::new(coding, level).unwrap()).collect();
            for encoder in &mut encoders {
                encoder.write(&body[..16 << 10]).unwrap();
            }
            let taken = resident().saturating_sub(before);
            let counted = COUNT * Encoder::memory(coding, level, None);
            assert!(taken < counted + OTHERS, "{coding:?} {level}: {taken} bytes, {counted} are counted");
        }
    }

    #[test]
    fn few_bytes_are_kept_in_compressors() {
        let memory = Encoder::memory(Coding::Gzip, 1, None);
        for (coding, level, expected) in [(Coding::Gzip, 1, KEPT / memory), (Coding::Zstd, 19, 0)] {
            let mut encoders: Vec<_> = (0..20).map(|_| Encoder::new(coding, level).unwrap()).collect();
            for encoder in &mut encoders {
                encoder.write(b"a").unwrap();
                encoder.finish().unwrap();
            }
            assert_eq!(SPARE.with_borrow(Vec::len), expected, "{coding:?}");
        }
    }

    #[test]
    fn large_bodies_leave_in_pieces_and_become_small() {
        let line = b"The same line again and again, as pages have it.\n";
        for coding in Coding::ALL {
            let mut encoder = Encoder::new(coding, 4).unwrap();
            let mut sent = Vec::new();
            for _ in 0..40_000 {
                encoder.write(line).unwrap();
                sent.append(encoder.out());
            }
            encoder.finish().unwrap();
            sent.append(encoder.out());
            assert!(sent.len() < 40_000, "{coding:?}: {}", sent.len());
            assert_eq!(decoded(coding, &sent).len(), 40_000 * line.len());
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn any_body_round_trips_however_it_is_split(
            pieces in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..3000), any::<bool>()), 0..8),
            level in 1_u8..=9,
        ) {
            for coding in Coding::ALL {
                // Two rounds: the second one may reuse the compressor of the first.
                for _ in 0..2 {
                    let mut encoder = Encoder::new(coding, level).unwrap();
                    let mut body = Vec::new();
                    for (piece, flush) in &pieces {
                        encoder.write(piece).unwrap();
                        body.extend_from_slice(piece);
                        if *flush {
                            encoder.flush().unwrap();
                        }
                    }
                    encoder.finish().unwrap();
                    prop_assert_eq!(&decoded(coding, encoder.out()), &body);
                }
            }
        }
    }
}
