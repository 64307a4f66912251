//! Label selectors, as `--watch-namespace-selector` takes them.

/// A parsed selector: all requirements must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector(Vec<Requirement>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Requirement {
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Absent(String),
}

/// Why a selector cannot be read.
#[derive(Debug, thiserror::Error)]
#[error(
    "{part:?} is no label requirement: write key=value, key!=value, key in (a,b), key notin (a,b), key or !key"
)]
pub struct SelectorError {
    part: String,
}

impl Selector {
    /// Reads a selector in `kubectl`'s notation.
    ///
    /// # Errors
    /// Names the part that cannot be read.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        split(text).map(|part| Requirement::parse(part.trim())).collect::<Result<_, _>>().map(Self)
    }

    /// Selects nothing: what a selector that cannot be read comes to.
    pub fn nothing() -> Self {
        let key = || "".to_owned();
        Self(vec![Requirement::Exists(key()), Requirement::Absent(key())])
    }

    /// Whether an object with these labels, sorted by key, is selected.
    pub fn matches(&self, labels: &[(Box<str>, Box<str>)]) -> bool {
        self.0.iter().all(|requirement| requirement.holds(labels))
    }
}

impl Requirement {
    fn parse(part: &str) -> Result<Self, SelectorError> {
        let bad = || SelectorError { part: part.to_owned() };
        let key = |text: &str| {
            let key = text.trim();
            let good = |b: u8| b.is_ascii_alphanumeric() || b"-_./".contains(&b);
            if key.is_empty() || !key.bytes().all(good) { Err(bad()) } else { Ok(key.to_owned()) }
        };
        let values = |text: &str| {
            let inner =
                text.trim().strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).ok_or_else(bad)?;
            Ok(inner.split(',').map(|value| value.trim().to_owned()).collect())
        };
        if let Some((name, list)) = part.split_once(" notin ") {
            Ok(Self::NotIn(key(name)?, values(list)?))
        } else if let Some((name, list)) = part.split_once(" in ") {
            Ok(Self::In(key(name)?, values(list)?))
        } else if let Some((name, value)) = part.split_once("!=") {
            Ok(Self::NotIn(key(name)?, vec![value.trim().to_owned()]))
        } else if let Some((name, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
            Ok(Self::In(key(name)?, vec![value.trim().to_owned()]))
        } else if let Some(name) = part.strip_prefix('!') {
            Ok(Self::Absent(key(name)?))
        } else {
            Ok(Self::Exists(key(part)?))
        }
    }

    fn holds(&self, labels: &[(Box<str>, Box<str>)]) -> bool {
        let value = |key: &str| labels.iter().find(|(name, _)| **name == *key).map(|(_, value)| &**value);
        match self {
            Self::In(key, values) => value(key).is_some_and(|have| values.iter().any(|want| want == have)),
            Self::NotIn(key, values) => {
                !value(key).is_some_and(|have| values.iter().any(|want| want == have))
            }
            Self::Exists(key) => value(key).is_some(),
            Self::Absent(key) => value(key).is_none(),
        }
    }
}

/// Splits at commas that stand in no parentheses.
fn split(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0u32;
    text.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
    .filter(|part| !part.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_of_every_form() {
        let labels: Vec<(Box<str>, Box<str>)> =
            vec![("env".into(), "prod".into()), ("team".into(), "web".into())];
        for (selector, expected) in [
            ("env=prod", true),
            ("env==prod,team=web", true),
            ("env!=prod", false),
            ("other!=x", true),
            ("env in (dev, prod),team", true),
            ("env notin (prod)", false),
            ("!env", false),
            ("!other", true),
            ("other in (a)", false),
            ("", true),
        ] {
            assert_eq!(Selector::parse(selector).unwrap().matches(&labels), expected, "{selector}");
        }
        for bad in ["=x", "env in prod", "a b"] {
            assert!(Selector::parse(bad).is_err(), "{bad}");
        }
    }
}
