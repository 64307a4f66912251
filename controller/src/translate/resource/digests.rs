//! Users of digest authentication: an htdigest text in one key of a Secret, or one key per user.
//!
//! A line is `user:realm:digest`; the value of a user's key is the part after the name. The digest
//! is that of `user:realm:password` in hexadecimal: MD5, as written by htdigest, or SHA-256. An
//! invalid line is left out with a problem, as in password files.

use std::collections::BTreeMap;
use std::sync::Arc;

use sluice_config::{DigestCredentials, DigestRealm, Problem, Resource};

use super::Bad;
use super::users::{Entries, FILE, UserEntry, first_of_each};
use crate::store::Secret;

const REMEDY: &str = "recreate the line with htdigest; it is picked up without a restart";

/// Parses the text under [`FILE`].
pub(super) fn file(secret: &Secret, problems: &mut Vec<Problem>) -> Result<DigestCredentials, Bad> {
    let remedy = "put an htdigest file there, or set auth-secret-type to auth-map if each key is a user";
    let entries = Entries::of_file(secret, remedy)?;
    credentials(entries, secret, FILE, problems)
}

/// Parses each key as a user.
pub(super) fn map(secret: &Secret, problems: &mut Vec<Problem>) -> Result<DigestCredentials, Bad> {
    credentials(Entries::of_map(secret), secret, "", problems)
}

/// Returns whether both have users of the same realms, if they have realms.
pub(super) fn have_same_realms(one: &Resource, other: &Resource) -> bool {
    fn realms(resource: &Resource) -> Vec<&Arc<str>> {
        match resource {
            Resource::Digests(digests) => digests.realms.iter().map(|realm| &realm.name).collect(),
            _ => Vec::new(),
        }
    }
    realms(one) == realms(other)
}

fn credentials(
    entries: Entries,
    secret: &Secret,
    key: &str,
    problems: &mut Vec<Problem>,
) -> Result<DigestCredentials, Bad> {
    let mut realms: BTreeMap<Arc<str>, DigestRealm> = BTreeMap::new();
    entries.read(secret, key, REMEDY, problems, |UserEntry { user, rest }| {
        let Some((realm, digest)) = rest.rsplit_once(':').map(|(realm, digest)| (realm, digest.trim_end()))
        else {
            return Err(format!("user {user:?} has no realm and digest after the name"));
        };
        let (md5, sha256) = (hex(digest), hex(digest));
        if md5.is_none() && sha256.is_none() {
            let forms = "neither MD5 (32 hexadecimal digits) nor SHA-256 (64 of them)";
            return Err(format!("the digest of user {user:?} is {forms}"));
        }
        let realm = realms
            .entry(realm.into())
            .or_insert_with_key(|name| DigestRealm { name: name.clone(), ..DigestRealm::default() });
        realm.md5.extend(md5.map(|digest| (user.clone(), digest)));
        realm.sha256.extend(sha256.map(|digest| (user.clone(), digest)));
        Ok(())
    });
    let mut realms: Vec<DigestRealm> = realms.into_values().collect();
    for realm in &mut realms {
        first_of_each(&mut realm.md5);
        first_of_each(&mut realm.sha256);
    }
    if realms.is_empty() {
        return Err(Bad {
            reason: "has no user with a digest that can be checked".into(),
            remedy: "add users with htdigest",
        });
    }
    Ok(DigestCredentials { realms })
}

fn hex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let digits = text.as_bytes();
    if digits.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
        let [high, low] = [pair[0], pair[1]].map(|digit| char::from(digit).to_digit(16));
        *byte = (high? << 4 | low?) as u8;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use sluice_config::NamespacedName;

    use super::*;
    use crate::store::DataFields;

    const MD5: &str = "939e7578ed9e3c518a452acee763bce9";
    const SHA256: &str = "7987c64c30e25f1b74be53f966b49b90f2808aa92faf9a00262392d7b4794232";

    fn secret(data: &[(&str, &str)]) -> Secret {
        let mut data: Vec<_> =
            data.iter().map(|(key, value)| ((*key).into(), value.as_bytes().into())).collect();
        data.sort();
        Secret {
            name: NamespacedName::new("shop", "users"),
            identity: Default::default(),
            fields: DataFields::All,
            data: data.into(),
        }
    }

    fn shown(digests: &DigestCredentials) -> Vec<String> {
        let realm = |realm: &DigestRealm| {
            let names = |names: Vec<&Arc<str>>| names.iter().map(|name| name.to_string()).collect::<Vec<_>>();
            let md5 = names(realm.md5.iter().map(|(name, _)| name).collect());
            let sha256 = names(realm.sha256.iter().map(|(name, _)| name).collect());
            format!("{:?} {md5:?} {sha256:?}", realm.name)
        };
        digests.realms.iter().map(realm).collect()
    }

    #[test]
    fn a_file_has_users_by_realm_with_either_digest() {
        let text = format!(
            "# ours\nmufasa:a realm: of all:{MD5}\r\nann:shop:{SHA256}\nann:shop:{MD5}\nann:shop:{}\n",
            "0".repeat(32)
        );
        let mut problems = Vec::new();
        let digests = file(&secret(&[("auth", &text)]), &mut problems).unwrap();
        assert_eq!(shown(&digests), [r#""a realm: of all" ["mufasa"] []"#, r#""shop" ["ann"] ["ann"]"#]);
        assert_eq!(digests.realms[1].md5[0].1[..2], [0x93, 0x9e], "the first line counts");
        assert_eq!(problems, []);
    }

    #[test]
    fn a_map_has_a_key_for_each_user() {
        let value = format!("shop:{MD5}\n");
        let mut problems = Vec::new();
        let digests = map(&secret(&[("bob", &value), ("ann", "shop:secret")]), &mut problems).unwrap();
        assert_eq!(shown(&digests), [r#""shop" ["bob"] []"#]);
        assert_eq!(problems[0].field, "data[ann]");
        assert!(!problems[0].to_string().contains("secret\""), "{}", problems[0]);
    }

    #[test]
    fn unusable_lines_are_reported_without_their_text() {
        let text = format!("ann\nbob:shop\neve:shop:hunter2\n:shop:{MD5}");
        let mut problems = Vec::new();
        let Err(bad) = file(&secret(&[("auth", &text)]), &mut problems) else { panic!("nobody is left") };
        assert!(bad.reason.contains("no user"), "{}", bad.reason);
        let texts: Vec<String> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(texts.len(), 4, "{texts:?}");
        assert!(texts.iter().all(|text| !text.contains("hunter2") && !text.contains(MD5)), "{texts:?}");
        assert!(file(&secret(&[("other", "x")]), &mut problems).is_err());
    }

    #[test]
    fn hosts_are_recomputed_for_realms_and_not_for_users() {
        let of = |realm: &str, user: &str| {
            let text = format!("{user}:{realm}:{MD5}");
            Resource::Digests(file(&secret(&[("auth", &text)]), &mut Vec::new()).unwrap())
        };
        assert!(have_same_realms(&of("shop", "ann"), &of("shop", "bob")));
        assert!(!have_same_realms(&of("shop", "ann"), &of("other", "ann")));
    }
}
