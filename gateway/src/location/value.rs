//! A value of a database as the text of a variable, in the form of nginx's GeoIP2 module.

use std::borrow::Cow;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// A text, a number or a truth value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'d> {
    Text(&'d str),
    Integer(u128),
    Signed(i64),
    Decimal(f64),
    Truth(bool),
}

impl<'d> Value<'d> {
    /// Returns the text: decimals have five digits, truth values are 1 and 0.
    pub(super) fn text(self) -> Cow<'d, str> {
        match self {
            Self::Text(text) => text.into(),
            Self::Integer(number) => number.to_string().into(),
            Self::Signed(number) => number.to_string().into(),
            Self::Decimal(number) => format!("{number:.5}").into(),
            Self::Truth(truth) => if truth { "1" } else { "0" }.into(),
        }
    }
}

impl<'de> Deserialize<'de> for Value<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Scalar)
    }
}

/// Accepts everything but maps, lists and bytes.
struct Scalar;

impl<'de> Visitor<'de> for Scalar {
    type Value = Value<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, a number or a truth value")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(Value::Text(text))
    }

    fn visit_bool<E: Error>(self, truth: bool) -> Result<Self::Value, E> {
        Ok(Value::Truth(truth))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Self::Value, E> {
        Ok(Value::Signed(number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Self::Value, E> {
        Ok(Value::Integer(number.into()))
    }

    fn visit_u128<E: Error>(self, number: u128) -> Result<Self::Value, E> {
        Ok(Value::Integer(number))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Self::Value, E> {
        Ok(Value::Decimal(number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_have_the_form_of_the_module_of_nginx() {
        for (value, text) in [
            (Value::Text("Zürich"), "Zürich"),
            (Value::Integer(15_169), "15169"),
            (Value::Signed(-1), "-1"),
            (Value::Decimal(-0.125), "-0.12500"),
            (Value::Truth(true), "1"),
            (Value::Truth(false), "0"),
        ] {
            assert_eq!(value.text(), text);
        }
    }
}
