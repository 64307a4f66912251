use sluice_config::{AddressRange, Moment, TemplatePiece, Variable};

use super::*;
use crate::policy::template::tests::with_context;

fn plain(text: &str) -> sluice_config::Template {
    sluice_config::Template::plain(text)
}

fn pairs(pairs: &[(&str, &str)]) -> Vec<(Arc<str>, sluice_config::Template)> {
    pairs.iter().map(|(text, value)| ((*text).into(), plain(value))).collect()
}

fn found(table: &sluice_config::TextTable, text: &str) -> String {
    let table = TextTable::compile(table).unwrap();
    let mut groups = Assigned::default();
    String::from_utf8(table.find(text.as_bytes(), &mut groups).text()).unwrap()
}

#[test]
fn exact_texts_precede_wildcards_and_these_expressions() {
    let table = sluice_config::TextTable {
        removes_final_dot: true,
        exact: pairs(&[("shop.example", "exact"), ("", "empty")]),
        suffixes: pairs(&[(".shop.example", "suffix"), (".deep.shop.example", "longer")]),
        prefixes: pairs(&[("mail.", "prefix"), ("mail.shop.", "longer prefix")]),
        expressions: vec![
            (sluice_config::Expression::Plain("shop".into()), plain("expression")),
            (sluice_config::Expression::Plain("".into()), plain("all")),
        ],
        default: plain("default"),
    };
    for (text, value) in [
        ("shop.example", "exact"),
        ("SHOP.example.", "exact"),
        ("a.b.Shop.example", "suffix"),
        ("x.deep.shop.example", "longer"),
        (".shop.example", "expression"),
        ("mail.org", "prefix"),
        ("mail.shop.org", "longer prefix"),
        ("mail", "all"),
        ("my-shop", "expression"),
        ("", "empty"),
    ] {
        assert_eq!(found(&table, text), value, "{text}");
    }
    let table = sluice_config::TextTable { exact: Vec::new(), ..table };
    assert_eq!(found(&table, ""), "default", "no expression matches an empty text");
}

#[test]
fn values_have_the_groups_of_their_expression_and_variables() {
    let group = |number: &str| TemplatePiece::Variable(Variable::Group(number.into()));
    let table = sluice_config::TextTable {
        expressions: vec![(
            sluice_config::Expression::Plain("^/a(.)b(?<tail>.*)$".into()),
            sluice_config::Template {
                pieces: vec![group("1"), TemplatePiece::Variable(Variable::Scheme), group("2")],
            },
        )],
        ..sluice_config::TextTable::default()
    };
    let variable = |name: &str, source: Variable| sluice_config::ComputedVariable {
        name: name.into(),
        source: sluice_config::Template { pieces: vec![TemplatePiece::Variable(source)] },
        table: sluice_config::ValueTable::Texts(table.clone()),
    };
    let outer = sluice_config::ComputedVariable {
        table: sluice_config::ValueTable::Texts(sluice_config::TextTable {
            exact: pairs(&[(" https/c", "inner")]),
            ..sluice_config::TextTable::default()
        }),
        ..variable("outer", Variable::Computed { name: "inner".into(), known: Moment::Request })
    };
    let computed = ComputedVariables::compile(&[variable("inner", Variable::Uri), outer]).unwrap();
    with_context(|context| {
        let context = TemplateContext { computed: &computed, ..*context };
        let value = |name| {
            let mut out = Vec::new();
            computed.write(name, &context, &mut out);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(value("inner"), " https/c");
        assert_eq!(value("outer"), "inner");
        assert_eq!(value("none"), "");
    });
}

#[test]
fn addresses_are_found_in_their_ranges() {
    let range = |first: &str, last: &str, value: &str| AddressRange {
        first: first.parse().unwrap(),
        last: last.parse().unwrap(),
        value: value.into(),
    };
    let table = AddressTable::compile(&sluice_config::AddressTable {
        ranges: vec![
            range("10.0.0.0", "10.0.0.255", "a"),
            range("10.0.1.0", "10.0.1.0", "b"),
            range("255.255.255.255", "255.255.255.255", "last"),
            range("2001:db8::", "2001:db8::ffff", "c"),
        ],
        default: "none".into(),
    });
    for (text, value) in [
        ("10.0.0.0", "a"),
        ("10.0.0.255", "a"),
        ("10.0.1.0", "b"),
        ("10.0.1.1", "none"),
        ("9.255.255.255", "none"),
        ("::ffff:10.0.0.7", "a"),
        ("2001:db8::1", "c"),
        ("2001:db9::1", "none"),
        ("no address", "last"),
        ("", "last"),
    ] {
        assert_eq!(table.find(text.as_bytes()), value, "{text}");
    }
}
