//! Words, lists of words, and other texts.

use std::sync::Arc;

use super::{Type, Wrong};

/// Go's `ParseBool`. An empty key is false, as for mapstructure.
pub fn bool() -> Type<bool> {
    Type::new("true or false", truth).empty_as("false")
}

/// Parses a truth value like Go's `strconv.ParseBool`.
///
/// # Errors
/// The text is not a truth value.
pub fn truth(text: &str) -> Result<bool, String> {
    match text.trim() {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(false),
        _ => Err("must be true or false".into()),
    }
}

/// `on` or `off`.
pub fn switch() -> Type<bool> {
    Type::of("on or off", |text| match text {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    })
}

/// Any text of one line.
pub fn text() -> Type<Arc<str>> {
    Type::of("text", |text| (!text.contains(['\r', '\n'])).then(|| text.into()))
}

/// Any text.
pub fn any() -> Type<Arc<str>> {
    Type::of("text", |text| Some(text.into()))
}

/// Any text that is a valid field value.
pub fn field() -> Type<Arc<str>> {
    Type::of("text without control characters", |text| {
        (!text.chars().any(char::is_control)).then(|| text.into())
    })
}

/// A token (RFC 9110 §5.6.2); `words` describes it.
pub fn token(words: &'static str) -> Type<Arc<str>> {
    Type::of(words, |text| (text.is_empty() || is_token(text)).then(|| text.into()))
}

/// Returns whether a text is a token (RFC 9110 §5.6.2), such as the name of a header field.
pub fn is_token(text: &str) -> bool {
    let fits = |b: u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b);
    !text.is_empty() && text.bytes().all(fits)
}

/// The name of a header field (RFC 9110 §5.1).
pub fn field_name() -> Type<Arc<str>> {
    token("the name of a header field").and_then(|name| match name.is_empty() {
        true => Err("must be the name of a header field"),
        false => Ok(name),
    })
}

/// A path, or a URL, with captures.
pub fn capture_path() -> Type<Arc<str>> {
    text()
        .called("letters, digits and - . _ ~ / : $")
        .allowing(|text| text.bytes().all(|b| b.is_ascii_alphanumeric() || b"-._~/:$".contains(&b)))
}

/// A comma-separated list.
pub fn list() -> Type<Vec<Arc<str>>> {
    list_of("comma-separated list", |item| Ok::<_, Wrong>(item.into()))
}

/// A comma-separated list of beginnings of paths, on one line: ingress-nginx trims only blanks, so
/// an item before or after a line feed matches no path there.
pub fn paths() -> Type<Vec<Arc<str>>> {
    Type::of("comma-separated list, on one line", |text| {
        let items = text.split(',').map(trim_blanks).filter(|item| !item.is_empty());
        (!text.contains(['\r', '\n'])).then(|| items.map(Into::into).collect())
    })
    .empty_as("")
    .trimmed_by(trim_blanks)
}

fn trim_blanks(text: &str) -> &str {
    text.trim_matches(' ')
}

/// A comma-separated list with a parser for its items, which may be on lines of their own.
pub fn list_of<T: 'static, E: Into<Wrong>>(
    words: &'static str,
    read: impl Fn(&str) -> Result<T, E> + Send + Sync + 'static,
) -> Type<Vec<T>> {
    Type::new(words, move |text| {
        let item = |item: &str| match item.contains(['\r', '\n']) {
            true => Err(Wrong::Invalid(format!("must be {words}, with a comma between all lines"))),
            false => read(item).map_err(Into::into),
        };
        items(text).map(item).collect()
    })
}

/// Returns the items of a comma-separated list, trimmed, without empty ones.
pub fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}

/// One of these words in any case, each with its value.
pub fn one_of<T: Clone + Send + Sync + 'static>(options: &'static [(&'static str, T)]) -> Type<T> {
    Type::of(one_of_words(options), move |text| find(options, text).cloned())
}

/// One of these words in exactly this case, each with its value.
pub fn exactly_one_of<T: Clone + Send + Sync + 'static>(options: &'static [(&'static str, T)]) -> Type<T> {
    Type::of(one_of_words(options), move |text| {
        options.iter().find(|(name, _)| *name == text).map(|(_, meaning)| meaning.clone())
    })
}

/// One of these words in any case; those without a value are not served.
pub fn partly<T: Clone + Send + Sync + 'static>(options: &'static [(&'static str, Option<T>)]) -> Type<T> {
    one_of(options).and_then(|meaning| meaning.ok_or(Wrong::NotServed)).in_part()
}

/// One of these words in any case; the result has the case given here.
pub fn choice(options: &'static [&'static str]) -> Type<&'static str> {
    Type::of(format!("one of {}", options.join(", ")), move |text| {
        options.iter().find(|option| option.eq_ignore_ascii_case(text.trim())).copied()
    })
}

fn one_of_words<T>(options: &[(&str, T)]) -> String {
    let names: Vec<&str> = options.iter().map(|(name, _)| *name).collect();
    format!("one of {}", names.join(", "))
}

fn find<'o, T>(options: &'o [(&str, T)], text: &str) -> Option<&'o T> {
    options.iter().find(|(name, _)| name.eq_ignore_ascii_case(text.trim())).map(|(_, meaning)| meaning)
}

/// Any of these words, separated by blanks.
pub fn words(options: &'static [&'static str]) -> Type<Vec<&'static str>> {
    let called = format!("any of {}, separated by spaces", options.join(", "));
    Type::of(called, move |text| {
        text.split_whitespace().map(|word| options.iter().find(|option| **option == word).copied()).collect()
    })
}
