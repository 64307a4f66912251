//! Of all entries of both tables: the type of a setting and its setter say the same.

use proptest::prelude::*;

use super::*;
use crate::translate::{annotations, tuning};

/// Texts of which each is a value of some type, or nearly one.
fn texts<S>(entry: &Setting<S>) -> Vec<String> {
    let fixed = [
        "",
        " ",
        "0",
        "1",
        "-1",
        "2",
        "100",
        "65535",
        "65536",
        "2147483647",
        "2147483648",
        "4294967295",
        "4294967296",
        "18446744073709551615",
        "1.5",
        "0.5",
        "1e9",
        "1k",
        "8K",
        "1m",
        "1g",
        "8191g",
        "8192g",
        "1b",
        "60s",
        "1h30m",
        "500ms",
        "7d",
        "4 8k",
        "0 8k",
        "16 1m",
        "true",
        "False",
        "t",
        "F",
        "yes",
        "on",
        "off",
        "On",
        "a",
        "A B",
        "error timeout",
        "error off",
        "http_404 nothing",
        "127.0.0.1",
        "[::1], ::",
        "10.0.0.0/8",
        "shop/users",
        "Shop",
        "a,b",
        "*",
        "$host",
        "é",
    ];
    let mut texts: Vec<String> = fixed.map(str::to_owned).into();
    match entry.value {
        Value::OneOf(words) | Value::Words(words) => {
            texts.extend(words.iter().map(|word| (*word).to_owned()));
            texts.extend(words.iter().map(|word| word.to_uppercase()));
            texts.push(words.join(" "));
        }
        Value::Within(first, last) => {
            texts.extend([first - 1, first, last, last + 1].map(|number| number.to_string()));
        }
        _ => {}
    }
    texts
}

/// Whether the type leaves more to the setter than it says itself.
fn is_open(value: &Value) -> bool {
    matches!(value, Value::Text | Value::List | Value::ObjectName | Value::CapturePath)
}

fn agree<S: Default>(families: &'static [&'static [Setting<S>]], further: &str) {
    for entry in entries(families) {
        let Support::Served(apply) = &entry.support else { continue };
        for text in texts(entry).iter().map(String::as_str).chain([further]) {
            let is_one = entry.value.check(text).is_ok();
            let applied = apply(text, &mut S::default());
            let name = entry.name;
            match applied {
                Ok(()) => {
                    // A number is checked in any case; the rest is not with --enable-annotation-validation=false.
                    let may = is_one || entry.value.is_number() || is_open(&entry.value);
                    assert!(may, "{name} takes {text:?}, which is no {:?}", entry.value);
                }
                Err(Fault::Invalid(reason)) => {
                    assert!(!is_one || is_open(&entry.value), "{name} refuses {text:?}: {reason}");
                    assert!(!reason.is_empty(), "{name} does not say why it refuses {text:?}");
                }
                Err(Fault::NotYet) => {}
            }
        }
        if !entry.default.is_empty() {
            assert_eq!(entry.value.check(entry.default), Ok(()), "the default of {}", entry.name);
        }
    }
}

#[test]
fn the_type_of_every_setting_is_what_its_setter_takes() {
    agree(annotations::FAMILIES, "");
    agree(tuning::FAMILIES, "");
}

proptest! {
    #[test]
    fn no_text_is_of_a_type_and_refused_by_its_setter(text in "[ -~]{0,12}|[0-9]{1,12}[bkmgshd]?") {
        agree(annotations::FAMILIES, &text);
        agree(tuning::FAMILIES, &text);
    }
}
