//! What a replica sends to those that subscribe: a greeting, then batches. All integers have the
//! order of the network.
//!
//! | part | content |
//! |---|---|
//! | greeting | instance (8 bytes), fingerprint of the key (8 bytes) |
//! | batch | number of entries (4 bytes), entries |
//! | entry | client (8 bytes), time in nanoseconds (8 bytes) |
//!
//! A batch without entries shows that the replica is alive.

use std::io;

use bytes::{BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::policy::limits::ClientUse;

/// Bytes of an entry.
const ENTRY: usize = 16;

/// Maximum number of entries of a batch, 256 KiB.
const MOST: usize = 1 << 14;

/// The first message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Greeting {
    /// Distinguishes processes: a replica also finds itself among the replicas.
    pub(super) instance: u64,
    /// Distinguishes keys of hashes.
    pub(super) fingerprint: u64,
}

impl Greeting {
    pub(super) fn encode(self) -> Bytes {
        let mut bytes = BytesMut::with_capacity(ENTRY);
        bytes.put_u64(self.instance);
        bytes.put_u64(self.fingerprint);
        bytes.freeze()
    }

    pub(super) async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Self> {
        Ok(Self { instance: stream.read_u64().await?, fingerprint: stream.read_u64().await? })
    }
}

/// Encodes as many batches as needed; none for no entries.
pub(super) fn batches(all: &[ClientUse]) -> impl Iterator<Item = Bytes> {
    all.chunks(MOST).map(batch)
}

/// Encodes one batch of at most [`MOST`] entries.
pub(super) fn batch(entries: &[ClientUse]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(4 + entries.len() * ENTRY);
    // At most `MOST`.
    bytes.put_u32(entries.len() as u32);
    for ClientUse { client, time } in entries {
        bytes.put_u64(*client);
        bytes.put_u64(*time);
    }
    bytes.freeze()
}

/// Reads a batch into `buffer` and returns its entries.
///
/// # Errors
/// The stream ends, or the batch is too long.
pub(super) async fn read_batch<'b, S: AsyncRead + Unpin>(
    stream: &mut S,
    buffer: &'b mut Vec<u8>,
) -> io::Result<impl Iterator<Item = ClientUse> + use<'b, S>> {
    let count = usize::try_from(stream.read_u32().await?).unwrap_or(usize::MAX);
    if count > MOST {
        let message = format!("a batch has {count} entries, and at most {MOST} are allowed");
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    buffer.resize(count * ENTRY, 0);
    stream.read_exact(buffer).await?;
    let (entries, _) = buffer.as_chunks::<ENTRY>();
    Ok(entries.iter().map(|entry| {
        let number = u128::from_be_bytes(*entry);
        // The halves.
        ClientUse { client: (number >> 64) as u64, time: number as u64 }
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_sent_is_read() {
        let greeting = Greeting { instance: 1, fingerprint: u64::MAX };
        assert_eq!(Greeting::read(&mut &*greeting.encode()).await.unwrap(), greeting);
        let all: Vec<ClientUse> =
            (0..MOST as u64 + 2).map(|client| ClientUse { client, time: u64::MAX - client }).collect();
        let mut read = Vec::new();
        let mut buffer = Vec::new();
        for bytes in batches(&all) {
            read.extend(read_batch(&mut &*bytes, &mut buffer).await.unwrap());
        }
        assert_eq!(read, all);
        assert_eq!(read_batch(&mut &*batch(&[]), &mut buffer).await.unwrap().count(), 0);
        assert_eq!(batches(&[]).count(), 0);
    }

    #[tokio::test]
    async fn a_batch_that_is_too_long_or_cut_off_is_refused() {
        let mut buffer = Vec::new();
        let error = read_batch(&mut &u32::MAX.to_be_bytes()[..], &mut buffer).await.err().unwrap();
        assert!(error.to_string().contains("at most 16384"), "{error}");
        let bytes = batch(&[ClientUse { client: 1, time: 2 }]);
        assert!(read_batch(&mut &bytes[..bytes.len() - 1], &mut buffer).await.is_err());
    }
}
