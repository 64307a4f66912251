//! Users in a Secret: the lines of one key, or one key per user. Callers parse the part after the
//! name.

use std::sync::Arc;

use sluice_config::{Code, ObjectRef, Problem};

use super::Bad;
use crate::problem::warning;
use crate::store::Secret;

/// The key of the Secret with a file of users.
pub(super) const FILE: &str = "auth";

/// Maximum number of lines that are reported separately: each is a log line.
pub(super) const MOST_PROBLEMS: usize = 20;

/// The entries of a Secret in order, each with its position.
#[derive(Default)]
pub(super) struct Entries(Vec<(String, Result<UserEntry, String>)>);

/// One user.
pub(super) struct UserEntry {
    /// The name.
    pub(super) user: Arc<str>,
    /// The part after the name and its colon.
    pub(super) rest: String,
}

/// Sorts users by name. The first one of a name applies, as in nginx.
pub(super) fn first_of_each<T>(users: &mut Vec<(Arc<str>, T)>) {
    users.sort_by(|(a, _), (b, _)| a.cmp(b));
    users.dedup_by(|(later, _), (first, _)| later == first);
}

impl Entries {
    /// Parses the lines `user:rest` under [`FILE`].
    pub(super) fn of_file(secret: &Secret, remedy: &'static str) -> Result<Self, Bad> {
        let Some(text) = secret.get(FILE) else {
            return Err(Bad { reason: format!("has no key {FILE}"), remedy });
        };
        let mut entries = Vec::new();
        for (number, line) in (1..).zip(text.split(|byte| *byte == b'\n')) {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() || line.starts_with(b"#") {
                continue;
            }
            let entry = match std::str::from_utf8(line).map(|line| line.split_once(':')) {
                Ok(Some((user, rest))) => UserEntry::new(user, rest),
                Ok(None) => Err("a line has no colon".into()),
                Err(_) => Err("a line is not UTF-8 text".into()),
            };
            entries.push((format!("line {number}"), entry));
        }
        Ok(Self(entries))
    }

    /// Returns each key as a user.
    pub(super) fn of_map(secret: &Secret) -> Self {
        let entry = |user: &str, rest: &[u8]| match std::str::from_utf8(rest) {
            Ok(rest) => UserEntry::new(user, rest.trim_end_matches(['\r', '\n'])),
            Err(_) => Err(format!("the value of user {user:?} is not UTF-8 text")),
        };
        Self(secret.data.iter().map(|(user, rest)| (user.to_string(), entry(user, rest))).collect())
    }

    /// Calls `read` for each user, and reports the unusable entries. `key` is [`FILE`], or empty if
    /// each key is a user.
    pub(super) fn read(
        self,
        secret: &Secret,
        key: &str,
        remedy: &'static str,
        problems: &mut Vec<Problem>,
        mut take: impl FnMut(UserEntry) -> Result<(), String>,
    ) {
        let wrong = |(place, entry): (String, Result<UserEntry, String>)| {
            entry.and_then(&mut take).err().map(|message| (place, message))
        };
        let mut bad: Vec<(String, String)> = self.0.into_iter().filter_map(wrong).collect();
        let object = ObjectRef { kind: "Secret".into(), name: secret.name.clone() };
        let more = bad.len().saturating_sub(MOST_PROBLEMS);
        bad.truncate(MOST_PROBLEMS);
        let mut tell = |place: &str, message: String| {
            let field = match (key, place) {
                ("", "") => "data".to_owned(),
                ("", place) => format!("data[{place}]"),
                (key, "") => format!("data[{key}]"),
                (key, place) => format!("data[{key}] {place}"),
            };
            let message = format!("{message}; it admits no user");
            problems.push(warning(Code::SecretInvalid, &object, field, message, remedy));
        };
        for (place, message) in bad {
            tell(&place, message);
        }
        if more > 0 {
            tell("", format!("{more} more users cannot be used either"));
        }
    }
}

impl UserEntry {
    fn new(user: &str, rest: &str) -> Result<Self, String> {
        match user {
            "" => Err("a user has no name".into()),
            user => Ok(Self { user: user.into(), rest: rest.to_owned() }),
        }
    }
}
