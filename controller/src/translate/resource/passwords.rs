//! Users and passwords: an htpasswd text in one key of a Secret, or one key per user.
//!
//! An invalid line is left out with a problem, and so is its user; the others are not affected. As
//! in nginx, the first line of a user counts, also if it is invalid: later ones may be older
//! passwords.

use std::collections::HashSet;

use sluice_config::{Credentials, Problem};

use super::users::{Entries, FILE, UserEntry};
use super::{Bad, password_hash};
use crate::store::Secret;

const REMEDY: &str = "recreate the line with htpasswd -B; it is picked up without a restart";

/// Parses the text under [`FILE`].
pub(super) fn file(secret: &Secret, problems: &mut Vec<Problem>) -> Result<Credentials, Bad> {
    let remedy = "put an htpasswd file there, or set auth-secret-type to auth-map if each key is a user";
    credentials(Entries::of_file(secret, remedy)?, secret, FILE, problems)
}

/// Parses each key as a user.
pub(super) fn map(secret: &Secret, problems: &mut Vec<Problem>) -> Result<Credentials, Bad> {
    credentials(Entries::of_map(secret), secret, "", problems)
}

fn credentials(
    entries: Entries,
    secret: &Secret,
    key: &str,
    problems: &mut Vec<Problem>,
) -> Result<Credentials, Bad> {
    let (mut users, mut seen) = (Vec::new(), HashSet::new());
    entries.read(secret, key, REMEDY, problems, |UserEntry { user, rest }| {
        if !seen.insert(user.clone()) {
            return Ok(());
        }
        // A comment may follow a second colon.
        let password = rest.split_once(':').map_or(&*rest, |(password, _)| password);
        let hash = password_hash::parse(password)
            .map_err(|reason| format!("the password of user {user:?} {reason}"))?;
        users.push((user, hash));
        Ok(())
    });
    users.sort_by(|(one, _), (other, _)| one.cmp(other));
    if users.is_empty() {
        return Err(Bad {
            reason: "has no user whose password can be checked".into(),
            remedy: "add users with htpasswd -B",
        });
    }
    Ok(Credentials { users })
}

#[cfg(test)]
mod tests {
    use sluice_config::{NamespacedName, PasswordHash};

    use super::*;
    use crate::store::DataFields;
    use crate::translate::resource::users::MOST_PROBLEMS;

    fn secret(data: &[(&str, &[u8])]) -> Secret {
        let mut data: Vec<_> = data.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        data.sort();
        Secret {
            name: NamespacedName::new("shop", "users"),
            identity: Default::default(),
            fields: DataFields::All,
            data: data.into(),
        }
    }

    fn names(credentials: &Credentials) -> Vec<&str> {
        credentials.users.iter().map(|(name, _)| &**name).collect()
    }

    #[test]
    fn a_user_whose_first_line_is_damaged_got_in_with_a_later_one() {
        let text = b"bob:{SHA}damaged\nann:{PLAIN}two\nbob:{PLAIN}old";
        let mut problems = Vec::new();
        let credentials = file(&secret(&[(FILE, text)]), &mut problems).unwrap();
        assert_eq!((names(&credentials), problems.len()), (vec!["ann"], 1));
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
    fn a_bad_line_affects_no_other_user_and_is_not_repeated() {
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
