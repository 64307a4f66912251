//! Formatting of cells as an aligned table.

use sluice_config::text::one_line;

/// Maximum length of a printed cell in bytes. Cells are escaped, because they contain foreign text
/// that a terminal would interpret.
const CELL: usize = 2048;

/// Pads each column to its widest cell. The first line is the heading.
pub(crate) fn render(lines: &[Vec<String>]) -> String {
    if lines.len() < 2 {
        return "none\n".to_owned();
    }
    let shown = |line: &Vec<String>| line.iter().map(|cell| one_line(cell, CELL).into_owned()).collect();
    let lines: Vec<Vec<String>> = lines.iter().map(shown).collect();
    let widths: Vec<usize> = (0..lines[0].len())
        .map(|column| lines.iter().map(|line| line[column].chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for line in lines {
        let padded: Vec<String> =
            line.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text.push_str(padded.join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let lines = [["HOST", "PATH"], ["shop.example", "/"], ["a", "/long"]];
        let lines = lines.map(|line| line.map(str::to_owned).to_vec());
        assert_eq!(render(&lines), "HOST          PATH\nshop.example  /\na             /long\n");
    }

    #[test]
    fn foreign_text_cannot_forge_a_line_or_control_the_terminal() {
        let text = render(&[vec!["PATH".to_owned()], vec!["/\nshop.example \u{1b}[2J".to_owned()]]);
        assert_eq!(text, "PATH\n/\\nshop.example \\u{1b}[2J\n");
    }

    #[test]
    fn an_empty_table_is_one_word() {
        assert_eq!(render(&[vec!["HOST".to_owned()]]), "none\n");
    }
}
