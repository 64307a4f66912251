//! Buffering of responses whose clients are slower than the endpoint.

use serde::{Deserialize, Serialize};

/// How a response is buffered. The default is that of ingress-nginx.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ResponseBuffering {
    /// Reads a response at the endpoint's speed instead of the client's (`proxy-buffering`).
    pub enabled: bool,
    /// Number of buffers in memory (`proxy-buffers-number`).
    pub buffers: u64,
    /// Bytes of one buffer (`proxy-buffer-size`).
    pub buffer_size: u64,
    /// Bytes that are handed to the client's connection at a time (`proxy-busy-buffers-size`).
    /// `None` is two buffers, nginx's default.
    pub busy: Option<u64>,
    /// Maximum number of bytes on disk, beside those in memory; 0 is none
    /// (`proxy-max-temp-file-size`).
    pub disk: u64,
}

impl Default for ResponseBuffering {
    fn default() -> Self {
        Self { enabled: false, buffers: 4, buffer_size: 4 << 10, busy: None, disk: 1 << 30 }
    }
}

impl ResponseBuffering {
    /// nginx's values for FastCGI, which ingress-nginx does not change: always on, with eight
    /// buffers (`fastcgi_buffering`, `fastcgi_buffers`, `fastcgi_max_temp_file_size`).
    pub const FASTCGI: Self =
        Self { enabled: true, buffers: 8, buffer_size: 4 << 10, busy: None, disk: 1 << 30 };

    /// Returns the bytes that all buffers in memory hold.
    #[must_use]
    pub const fn memory(&self) -> u64 {
        self.buffers.saturating_mul(self.buffer_size)
    }

    /// Returns the bytes that are handed to the client's connection at a time.
    #[must_use]
    pub fn portion(&self) -> u64 {
        self.busy.unwrap_or(self.buffer_size.saturating_mul(2)).max(self.buffer_size)
    }
}

/// The settings of one rule. A field that is `None` inherits the global value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ResponseBufferingOverrides {
    /// See [`ResponseBuffering::enabled`].
    pub enabled: Option<bool>,
    /// See [`ResponseBuffering::buffers`].
    pub buffers: Option<u64>,
    /// See [`ResponseBuffering::buffer_size`].
    pub buffer_size: Option<u64>,
    /// See [`ResponseBuffering::busy`].
    pub busy: Option<u64>,
    /// See [`ResponseBuffering::disk`].
    pub disk: Option<u64>,
}

impl ResponseBufferingOverrides {
    /// Returns the settings that result with these global ones.
    #[must_use]
    pub fn resolve(&self, global: &ResponseBuffering) -> ResponseBuffering {
        ResponseBuffering {
            enabled: self.enabled.unwrap_or(global.enabled),
            buffers: self.buffers.unwrap_or(global.buffers),
            buffer_size: self.buffer_size.unwrap_or(global.buffer_size),
            busy: self.busy.or(global.busy),
            disk: self.disk.unwrap_or(global.disk),
        }
    }

    /// Returns these settings with those of `other` where there are none.
    #[must_use]
    pub fn or(&self, other: &Self) -> Self {
        Self {
            enabled: self.enabled.or(other.enabled),
            buffers: self.buffers.or(other.buffers),
            buffer_size: self.buffer_size.or(other.buffer_size),
            busy: self.busy.or(other.busy),
            disk: self.disk.or(other.disk),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_changes_what_it_sets() {
        let global = ResponseBuffering { enabled: true, busy: Some(9), ..ResponseBuffering::default() };
        let rule = ResponseBufferingOverrides { buffers: Some(2), disk: Some(0), ..Default::default() };
        let expected = ResponseBuffering { buffers: 2, disk: 0, ..global };
        assert_eq!(rule.resolve(&global), expected);
        let less = ResponseBufferingOverrides { buffers: Some(3), busy: Some(1), ..Default::default() };
        assert_eq!(rule.or(&less).resolve(&global), ResponseBuffering { busy: Some(1), ..expected });
    }

    #[test]
    fn sizes_are_those_of_nginx() {
        let default = ResponseBuffering::default();
        assert_eq!((default.memory(), default.portion()), (16 << 10, 8 << 10));
        let small = ResponseBuffering { busy: Some(1), buffers: u64::MAX, ..default };
        assert_eq!((small.memory(), small.portion()), (u64::MAX, 4 << 10));
    }
}
