use proptest::prelude::*;

use super::*;

fn words(text: &str) -> Vec<Vec<String>> {
    let one = |directive: Directive| std::iter::once(directive.name).chain(directive.arguments).collect();
    parse(text).unwrap().into_iter().map(one).collect()
}

fn reason(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn words_are_separated_by_blanks_and_quotes() {
    assert_eq!(words("a b\tc;\nd 'e  f' \"g;{}\";"), [vec!["a", "b", "c"], vec!["d", "e  f", "g;{}"]]);
    assert_eq!(words("set $x ${host}y;"), [["set", "$x", "${host}y"]]);
    assert_eq!(words("if ($a = \"b\") {}"), [["if", "($a", "=", "b", ")"]]);
    assert_eq!(words("a b#c;"), [["a", "b#c"]], "a # inside a word starts no comment");
    assert_eq!(words("a ''; b \"\";"), [["a", ""], ["b", ""]]);
}

#[test]
fn escapes_are_those_of_nginx() {
    assert_eq!(words(r#"a "\"b\" \' \\" \.c \d+\$;"#), [["a", "\"b\" ' \\", "\\.c", "\\d+\\$"]]);
    assert_eq!(words(r"a 'b\n\t\r';"), [["a", "b\n\t\r"]]);
    assert_eq!(words(r"a b\ c;"), [["a", "b\\ c"]], "an escaped blank ends no word");
}

#[test]
fn comments_are_no_directives_and_lines_are_counted() {
    let directives = parse("# one; two\n\na b;\n  # c\nlocation /x {\n  # d }\n  e;\n}\n").unwrap();
    let lines: Vec<_> = directives.iter().map(|directive| (&*directive.name, directive.line)).collect();
    assert_eq!(lines, [("a", 3), ("location", 5)]);
    let block = directives[1].block.as_deref().unwrap();
    assert_eq!((&*block[0].name, block[0].line), ("e", 7));
    assert!(parse("").unwrap().is_empty());
    assert!(parse("# only a comment").unwrap().is_empty());
}

#[test]
fn text_that_nginx_refuses_is_refused_with_its_line() {
    for (text, expected) in [
        ("a b", "line 1: the text ends inside a directive; a ; is missing"),
        ("a {\n b;\n", "line 3: the text ends inside a block; a } is missing"),
        ("a }", "line 1: unexpected }; a ; is missing before it"),
        ("a;\n}", "line 2: unexpected }"),
        ("a { b }", "line 1: unexpected }; a ; is missing before it"),
        (";", "line 1: unexpected ;"),
        ("{}", "line 1: unexpected {"),
        ("a 'b;", "line 1: a quote has no end"),
        ("a 'b'c;", "line 1: unexpected 'c' after a quoted word"),
        ("a \\", "line 1: the text ends with a backslash"),
    ] {
        assert_eq!(reason(text), expected, "{text:?}");
    }
}

#[test]
fn size_depth_and_number_of_directives_are_bounded() {
    assert!(reason(&"a;".repeat(MOST_DIRECTIVES + 1)).contains("more than 1000 directives"));
    assert!(reason(&" ".repeat(MOST_BYTES + 1)).contains("bytes"));
    let nested = |depth| format!("{}{}", "a { ".repeat(depth), "} ".repeat(depth));
    assert!(parse(&nested(MOST_DEPTH)).is_ok());
    assert!(reason(&nested(MOST_DEPTH + 1)).contains("inside each other"));
}

proptest! {
    #[test]
    fn any_text_is_parsed_or_refused(text in "[a-z \\n;{}\"'\\\\$#()~=]{0,60}") {
        if let Ok(directives) = parse(&text) {
            prop_assert!(directives.iter().all(|directive| directive.line <= text.lines().count().max(1)));
        }
    }

    #[test]
    fn quoted_words_come_back_as_they_were(word in "[a-z ;{}#$\n'\"\\\\]{0,20}") {
        let escaped = word.replace('\\', "\\\\").replace('"', "\\\"");
        prop_assert_eq!(words(&format!("a \"{escaped}\";")), [["a".to_owned(), word]]);
    }
}
