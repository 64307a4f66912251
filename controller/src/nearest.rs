//! Suggestions for misspelt names.

/// Returns the known name nearest to `name`, if it is near enough to be a typing error.
pub(crate) fn nearest<'k>(known: impl Iterator<Item = &'k str>, name: &str) -> Option<&'k str> {
    known
        .map(|known| (distance(known, name), known))
        .min()
        .filter(|(distance, _)| *distance <= name.len().max(6) / 3)
        .map(|(_, known)| known)
}

/// Returns the Levenshtein distance in bytes.
fn distance(a: &str, b: &str) -> usize {
    let b = b.as_bytes();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
