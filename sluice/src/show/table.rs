//! Lines of cells as aligned text.

/// Columns as wide as their widest cell; the first line is the heading.
pub(super) fn render(lines: &[Vec<String>]) -> String {
    if lines.len() < 2 {
        return "none\n".to_owned();
    }
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
    fn nothing_is_said_in_a_word() {
        assert_eq!(render(&[vec!["HOST".to_owned()]]), "none\n");
    }
}
