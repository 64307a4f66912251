//! Names of objects. The type contains their kind, and whether the author may name them.

use sluice_config::NamespacedName;

use super::{Author, Type, Wrong};
use crate::store::Kind;

/// A Secret: a name, or `namespace/name`.
pub fn secret() -> Type<NamespacedName> {
    object(Kind::Secret)
}

/// A ConfigMap: a name, or `namespace/name`.
pub fn config_map() -> Type<NamespacedName> {
    object(Kind::ConfigMap)
}

/// A ConfigMap in any namespace.
pub fn config_map_of_any_namespace() -> Type<NamespacedName> {
    let Type { words, parser, is_allowed, refers, is_partial, moment, empty, trim } = object(Kind::ConfigMap);
    let parser =
        Box::new(move |text: &str, author: &Author<'_>| parser(text, &Author { crosses: true, ..*author }));
    Type { words, parser, is_allowed, refers, is_partial, moment, empty, trim }
}

fn object(kind: Kind) -> Type<NamespacedName> {
    const WORDS: &str = "name or namespace/name";
    let read = move |text: &str, author: &Author<'_>| {
        let (namespace, name) = match text.split_once('/') {
            Some((namespace, name)) => (namespace, name),
            None => (author.namespace, text),
        };
        if !is_name(name) || (text.contains('/') && !is_name(namespace)) {
            return Err(Wrong::Invalid(format!("must be {WORDS}")));
        }
        if namespace != author.namespace && !author.crosses {
            let reason =
                format!("names a {} of another namespace, {text:?}, which is not allowed", kind.as_str());
            return Err(Wrong::Forbidden(reason));
        }
        Ok(NamespacedName::new(namespace, name))
    };
    Type { refers: Some(kind), ..Type::with_author(WORDS, read) }
}

/// A Service of the author's namespace.
pub fn service() -> Type<Box<str>> {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let read = move |text: &str| {
        let begins = text.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase());
        let is_label = begins && text.len() <= 63 && !text.ends_with('-') && text.bytes().all(fits);
        is_label.then(|| text.into()).ok_or("must be the name of a Service (RFC 1035 label)")
    };
    Type { refers: Some(Kind::Service), ..Type::new("name", read) }
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.".contains(&b))
}
