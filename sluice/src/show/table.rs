//! A JSON array of objects as a table for people.

use serde_json::Value;

/// A header and one line per object; columns as wide as their widest cell. A value that is no array of objects
/// is printed as it is.
pub(super) fn render(value: &Value) -> String {
    let Some(rows) = value.as_array() else { return format!("{value:#}\n") };
    let mut columns: Vec<&str> = Vec::new();
    for key in rows.iter().filter_map(Value::as_object).flat_map(|row| row.keys()) {
        if !columns.contains(&key.as_str()) {
            columns.push(key);
        }
    }
    if columns.is_empty() {
        return "none\n".to_owned();
    }
    let header = columns.iter().map(|name| name.to_uppercase().replace('_', "-")).collect();
    let cells = rows.iter().map(|row| columns.iter().map(|name| cell(&row[*name])).collect());
    let lines: Vec<Vec<String>> = std::iter::once(header).chain(cells).collect();
    let widths: Vec<usize> = (0..columns.len())
        .map(|column| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for line in &lines {
        let padded: Vec<String> =
            line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text.push_str(padded.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// A value in one cell: lists by commas, objects as `key=value`.
fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) if text.is_empty() => "-".to_owned(),
        Value::String(text) => text.clone(),
        Value::Array(items) if items.is_empty() => "-".to_owned(),
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(","),
        Value::Object(fields) => {
            fields.iter().map(|(key, value)| format!("{key}={}", cell(value))).collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_are_aligned_and_empty_cells_are_dashes() {
        let text = render(&json!([
            {"host": "a.example", "rules": 2, "tls": null},
            {"host": "b", "rules": 10, "endpoints": [{"address": "127.0.0.1:1", "healthy": true}]},
        ]));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3);
        assert!(lines[0].starts_with("HOST       RULES  TLS  ENDPOINTS"), "{text}");
        assert!(lines[1].starts_with("a.example  2      -"), "{text}");
        assert!(lines[2].contains("address=127.0.0.1:1 healthy=true"), "{text}");
    }

    #[test]
    fn nothing_is_said_in_a_word() {
        assert_eq!(render(&json!([])), "none\n");
    }
}
