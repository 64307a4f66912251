//! Users and passwords: an htpasswd text in one key of a Secret, or one key for each user.
//!
//! A line that cannot be used is left out with a problem, and its user with it; the others get in as before.

use sluice_config::{Code, Credentials, ObjectRef, PasswordHash, Problem};

use super::{Bad, password_hash};
use crate::problem::warning;
use crate::store::Secret;

/// The key of the Secret that holds an htpasswd text.
pub(super) const FILE: &str = "auth";

/// Lines that are told one by one: each is a line of the log.
const MOST_PROBLEMS: usize = 20;

/// Reads the text under [`FILE`].
pub(super) fn file(secret: &Secret, problems: &mut Vec<Problem>) -> Result<Credentials, Bad> {
    let Some(text) = secret.get(FILE) else {
        return Err(Bad {
            reason: format!("has no key {FILE}"),
            remedy: "put an htpasswd file there, or set auth-secret-type to auth-map if each key is a user",
        });
    };
    let mut users = Users::default();
    let lines = text.split(|byte| *byte == b'\n');
    for (number, line) in (1..).zip(lines) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if !line.is_empty() && !line.starts_with(b"#") {
            users.line(number, line);
        }
    }
    users.finish(secret, FILE, problems)
}

/// Reads each key as a user.
pub(super) fn map(secret: &Secret, problems: &mut Vec<Problem>) -> Result<Credentials, Bad> {
    let mut users = Users::default();
    for (user, password) in &secret.data {
        let field = || user.to_string();
        match std::str::from_utf8(password) {
            Ok(password) => users.user(field, user, password.trim_end_matches(['\r', '\n'])),
            Err(_) => users.bad.push((field(), format!("the password of user {user:?} is no text"))),
        }
    }
    users.finish(secret, "", problems)
}

/// Users on their way.
#[derive(Default)]
struct Users {
    good: Vec<(std::sync::Arc<str>, PasswordHash)>,
    /// Field within the Secret and what is wrong.
    bad: Vec<(String, String)>,
}

impl Users {
    /// `user:password`, perhaps with a comment after a further colon.
    fn line(&mut self, number: usize, line: &[u8]) {
        let field = || format!("line {number}");
        match std::str::from_utf8(line).map(|line| line.split_once(':')) {
            Ok(Some((user, password))) => self.user(field, user, password),
            Ok(None) => self.bad.push((field(), "a line without a colon is no user".into())),
            Err(_) => self.bad.push((field(), "a line that is no text is no user".into())),
        }
    }

    fn user(&mut self, field: impl Fn() -> String, user: &str, password: &str) {
        if user.is_empty() {
            self.bad.push((field(), "a user has no name".into()));
            return;
        }
        let password = password.split_once(':').map_or(password, |(password, _)| password);
        match password_hash::parse(password) {
            Ok(hash) => self.good.push((user.into(), hash)),
            Err(reason) => self.bad.push((field(), format!("the password of user {user:?} {reason}"))),
        }
    }

    fn finish(mut self, secret: &Secret, key: &str, problems: &mut Vec<Problem>) -> Result<Credentials, Bad> {
        let object = ObjectRef { kind: "Secret".into(), name: secret.name.clone() };
        let remedy = "write the line anew with htpasswd -B; it is picked up without a restart";
        let more = self.bad.len().saturating_sub(MOST_PROBLEMS);
        self.bad.truncate(MOST_PROBLEMS);
        let mut tell = |place: &str, message: String| {
            let field = match (key, place) {
                ("", "") => "data".to_owned(),
                ("", place) => format!("data[{place}]"),
                (key, "") => format!("data[{key}]"),
                (key, place) => format!("data[{key}] {place}"),
            };
            let message = format!("{message}; nobody gets in by it");
            problems.push(warning(Code::SecretInvalid, &object, field, message, remedy));
        };
        for (place, message) in self.bad {
            tell(&place, message);
        }
        if more > 0 {
            tell("", format!("{more} more users cannot be used either"));
        }
        // The first line of a user counts, as with nginx.
        self.good.sort_by(|(a, _), (b, _)| a.cmp(b));
        self.good.dedup_by(|(later, _), (first, _)| later == first);
        if self.good.is_empty() {
            return Err(Bad {
                reason: "has no user whose password can be checked".into(),
                remedy: "add users with htpasswd -B",
            });
        }
        Ok(Credentials { users: self.good })
    }
}

#[cfg(test)]
mod tests {
    use sluice_config::NamespacedName;

    use super::*;
    use crate::store::Fields;

    fn secret(data: &[(&str, &[u8])]) -> Secret {
        let mut data: Vec<_> = data.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        data.sort();
        Secret {
            name: NamespacedName::new("shop", "users"),
            identity: Default::default(),
            fields: Fields::All,
            data: data.into(),
        }
    }

    fn names(credentials: &Credentials) -> Vec<&str> {
        credentials.users.iter().map(|(name, _)| &**name).collect()
    }

    #[test]
    fn a_file_has_comments_other_ends_of_lines_and_a_first_line_that_counts() {
        let text = b"# ours\r\nbob:{PLAIN}one:a comment\r\n\nann:{PLAIN}two\nbob:{PLAIN}three\n:{PLAIN}x";
        let mut problems = Vec::new();
        let credentials = file(&secret(&[(FILE, text)]), &mut problems).unwrap();
        assert_eq!(names(&credentials), ["ann", "bob"]);
        assert_eq!(credentials.users[1].1, PasswordHash::Plain("one".into()));
        assert_eq!(problems.len(), 1);
        assert_eq!(problems[0].field, "data[auth] line 6");
    }

    #[test]
    fn a_bad_line_harms_nobody_else_and_is_not_repeated() {
        let text = b"ann:{PLAIN}two\nhunter2\nbob:hunter2\n\xff\xfe:x\n";
        let mut problems = Vec::new();
        let credentials = file(&secret(&[(FILE, text)]), &mut problems).unwrap();
        assert_eq!(names(&credentials), ["ann"]);
        let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(texts.len(), 3, "{texts:?}");
        assert!(texts[1].contains("\"bob\"") && texts[1].contains("line 3"), "{}", texts[1]);
        assert!(texts.iter().all(|text| !text.contains("hunter2")), "{texts:?}");
    }

    #[test]
    fn a_map_has_a_key_for_each_user() {
        let data: [(&str, &[u8]); 3] = [("bob", b"{PLAIN}one\n"), ("ann", b"{PLAIN}two"), ("eve", b"\xff")];
        let mut problems = Vec::new();
        let credentials = map(&secret(&data), &mut problems).unwrap();
        assert_eq!(names(&credentials), ["ann", "bob"]);
        assert_eq!(credentials.users[1].1, PasswordHash::Plain("one".into()));
        assert_eq!(problems[0].field, "data[eve]");
    }

    #[test]
    fn without_a_key_or_a_user_it_cannot_be_used() {
        let mut problems = Vec::new();
        let fault = |secret: &Secret, problems: &mut _| file(secret, problems).unwrap_err().reason;
        assert!(fault(&secret(&[("other", b"x")]), &mut problems).contains("no key auth"));
        assert!(fault(&secret(&[(FILE, b"# nobody\n")]), &mut problems).contains("no user"));
        assert!(fault(&secret(&[(FILE, &b"x\n".repeat(1000))]), &mut problems).contains("no user"));
        assert_eq!(problems.len(), MOST_PROBLEMS + 1);
    }
}
