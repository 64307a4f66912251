//! Lets policies change Pingora's heads, which also keep the case of names.

use http::header::{HeaderName, HeaderValue};
use pingora_http::{RequestHeader, ResponseHeader};

use crate::message::fields::Fields;
use crate::message::fields::FieldsMut;

/// The results are dropped because only names and values that are still text can be invalid, and because a map
/// is full at 32,768 fields only, of which no head that we read has a hundredth.
macro_rules! fields {
    ($head:ty) => {
        impl Fields for $head {
            fn first(&self, name: &HeaderName) -> Option<&[u8]> {
                self.headers.first(name)
            }

            fn lines<'f>(&'f self, name: &'f HeaderName) -> impl DoubleEndedIterator<Item = &'f [u8]> {
                self.headers.lines(name)
            }
        }

        impl FieldsMut for $head {
            fn set(&mut self, name: &HeaderName, value: &HeaderValue) {
                let _ = self.insert_header(name, value);
            }

            fn append(&mut self, name: &HeaderName, value: &HeaderValue) {
                let _ = self.append_header(name, value);
            }

            fn remove(&mut self, name: &HeaderName) {
                self.remove_header(name);
            }
        }
    };
}

fields!(RequestHeader);
fields!(ResponseHeader);
