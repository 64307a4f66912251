//! Conditions of `proxy-next-upstream`.

use sluice_config::NextUpstream;

use super::Type;

/// A condition and the field that it sets.
type Condition = (&'static str, fn(&mut NextUpstream) -> &mut bool);

const CONDITIONS: [Condition; 11] = [
    ("error", |on| &mut on.error),
    ("timeout", |on| &mut on.timeout),
    ("invalid_header", |on| &mut on.invalid_header),
    ("http_500", |on| &mut on.http_500),
    ("http_502", |on| &mut on.http_502),
    ("http_503", |on| &mut on.http_503),
    ("http_504", |on| &mut on.http_504),
    ("http_403", |on| &mut on.http_403),
    ("http_404", |on| &mut on.http_404),
    ("http_429", |on| &mut on.http_429),
    ("non_idempotent", |on| &mut on.non_idempotent),
];

/// Conditions separated by blanks; `off` overrides all others.
pub fn next_upstream() -> Type<NextUpstream> {
    let names: Vec<&str> = CONDITIONS.iter().map(|(name, _)| *name).collect();
    let words = format!("off, or any of {}, separated by spaces", names.join(", "));
    Type::new(words, |text| {
        let mut on = NextUpstream::default();
        for word in text.split_whitespace().filter(|word| *word != "off") {
            let condition = CONDITIONS.iter().find(|(name, _)| *name == word);
            let (_, switch) = condition.ok_or_else(|| format!("has {word:?}, which is not a condition"))?;
            *switch(&mut on) = true;
        }
        let off = text.split_whitespace().any(|word| word == "off");
        Ok::<_, String>(if off { NextUpstream::default() } else { on })
    })
}
