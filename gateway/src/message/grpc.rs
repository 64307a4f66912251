//! Messages of gRPC: each with a flag and its length in front of it.

mod status;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use prost::Message;

pub(crate) use status::GrpcStatus;

/// Length of the header of a message.
pub(crate) const HEADER: usize = 5;

/// The bytes are no messages that can be read: compressed, too large or malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("is compressed, too large or malformed")]
pub(crate) struct BadMessage;

/// Returns an encoded message with its header, uncompressed.
pub(crate) fn framed(message: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(HEADER + message.len());
    out.put_u8(0);
    out.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    out.put_slice(message);
    out.freeze()
}

/// Encodes a message with its header.
pub(crate) fn encoded(message: &impl Message) -> Bytes {
    framed(&message.encode_to_vec())
}

/// Takes the next message from received bytes, of at most `most` bytes; `None` if it is incomplete.
///
/// # Errors
/// The bytes are not readable.
pub(crate) fn take<M: Message + Default>(
    received: &mut BytesMut,
    most: usize,
) -> Result<Option<M>, BadMessage> {
    let Some((header, rest)) = received.split_at_checked(HEADER) else { return Ok(None) };
    let length = u32::from_be_bytes([header[1], header[2], header[3], header[4]]) as usize;
    if header[0] != 0 || length > most {
        return Err(BadMessage);
    }
    if rest.len() < length {
        return Ok(None);
    }
    received.advance(HEADER);
    let message = received.split_to(length);
    M::decode(message).map(Some).map_err(|_| BadMessage)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_taken_one_by_one_when_they_are_complete() {
        let message = "hello".to_owned();
        let both = [encoded(&message), framed(&"you".to_owned().encode_to_vec())].concat();
        let mut received = BytesMut::new();
        let mut taken = Vec::new();
        for byte in both {
            received.put_u8(byte);
            taken.extend(take::<String>(&mut received, 64).unwrap());
        }
        assert_eq!(taken, ["hello", "you"]);
        assert!(received.is_empty());
    }

    #[test]
    fn compressed_large_and_malformed_messages_are_refused() {
        for bytes in [&b"\x01\0\0\0\0"[..], b"\0\0\0\0\x41", b"\0\0\0\0\x02\x0a\xff"] {
            assert_eq!(take::<String>(&mut BytesMut::from(bytes), 64), Err(BadMessage), "{bytes:?}");
        }
    }
}
