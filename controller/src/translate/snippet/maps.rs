//! `map SOURCE $NAME { }` (`ngx_http_map_module`).

use std::sync::Arc;

use sluice_config::{ComputedVariable, Moment, Template, TextTable, ValueTable, Variable};

use super::computed::ComputedBuilder;
use super::fault::{Fault, Untranslated};
use super::grammar::Directive;
use crate::translate::expression::Expression;
use crate::translate::template;

/// Reads the directive with its entries. Returns the translation in words.
///
/// # Errors
/// The first entry that nginx would refuse, or that Sluice does not support.
pub(super) fn read(
    directive: &Directive,
    entries: &[Directive],
    computed: &mut ComputedBuilder,
) -> Result<String, Untranslated> {
    let fail = |fault| directive.fault(fault);
    let [source, name] = &directive.arguments[..] else {
        return Err(fail("takes a text and the name of a variable".into()));
    };
    let variable = computed.name(name).map_err(fail)?;
    let template = computed.template(source).map_err(fail)?;
    let mut table = TextTable::default();
    let mut default = None;
    let has_hostnames = entries.iter().any(|entry| is_option(entry, "hostnames"));
    table.removes_final_dot = has_hostnames;
    for entry in entries {
        self::entry(entry, has_hostnames, computed, &mut table, &mut default)
            .map_err(|fault| entry.fault(fault))?;
    }
    table.default = default.unwrap_or_default();
    let values: Vec<Template> = values(&table).cloned().collect();
    let variable = ComputedVariable { name: variable, source: template, table: ValueTable::Texts(table) };
    computed.add(variable, values.iter()).map_err(fail)?;
    Ok(format!("{name} is looked up by {source} in a table of {}", entries.len()))
}

fn is_option(entry: &Directive, name: &str) -> bool {
    entry.name == name && entry.arguments.is_empty()
}

fn values(table: &TextTable) -> impl Iterator<Item = &Template> + Clone {
    let texts = [&table.exact, &table.suffixes, &table.prefixes];
    let texts = texts.into_iter().flatten().map(|(_, value)| value);
    texts.chain(table.expressions.iter().map(|(_, value)| value)).chain([&table.default])
}

fn entry(
    entry: &Directive,
    has_hostnames: bool,
    computed: &ComputedBuilder,
    table: &mut TextTable,
    default: &mut Option<Template>,
) -> Result<(), Fault> {
    let value = match (&*entry.name, &entry.arguments[..]) {
        _ if entry.block.is_some() => return Err("an entry has no block".into()),
        // `volatile` asks for what holds here for all: a table is read when its variable is used.
        ("hostnames" | "volatile", []) => return Ok(()),
        ("include", _) => return Err("snippets reach no files; write the entries here".into()),
        (_, [value]) => value,
        _ => return Err("takes a value".into()),
    };
    if entry.name == "default" {
        return match default.replace(computed.template(value)?) {
            Some(_) => Err("it stands twice".into()),
            None => Ok(()),
        };
    }
    if let Some(pattern) = entry.name.strip_prefix('~') {
        let pattern = match pattern.strip_prefix('*') {
            Some(pattern) => format!("(?i){pattern}"),
            None => pattern.to_owned(),
        };
        let read = Expression::read(&pattern)
            .map_err(|reason| format!("the expression {pattern:?} cannot be read ({reason})"))?;
        let value = value_of_expression(value, &read, computed)?;
        table.expressions.push((read.in_form(&pattern), value));
        return Ok(());
    }
    let text = entry.name.strip_prefix('\\').unwrap_or(&entry.name).to_ascii_lowercase();
    let value = computed.template(value)?;
    if has_hostnames && (text.contains('*') || text.starts_with('.')) {
        return wildcard(&text, value, table);
    }
    put(&mut table.exact, &text, value)
}

/// A value that may have the groups of an expression.
fn value_of_expression(
    text: &str,
    expression: &Expression,
    computed: &ComputedBuilder,
) -> Result<Template, Fault> {
    let group_of = |name: &str| match name.parse::<usize>() {
        Ok(number) => (1..expression.groups).contains(&number).then_some(number),
        Err(_) => expression.names.get(name).copied(),
    };
    let resolve = |name: &str| match group_of(name) {
        Some(number) => Ok(Variable::Group(number.to_string().into())),
        None => computed.declared().known(name, Moment::End),
    };
    Ok(template::parse_with(text, resolve)?)
}

/// `*.NAME`, `.NAME` (also for the name itself) or `NAME.*`.
fn wildcard(text: &str, value: Template, table: &mut TextTable) -> Result<(), Fault> {
    let is_name = |name: &str| !name.is_empty() && !name.contains('*');
    if let Some(name) = text.strip_prefix("*.").filter(|name| is_name(name)) {
        return put(&mut table.suffixes, &format!(".{name}"), value);
    }
    if let Some(name) = text.strip_prefix('.').filter(|name| is_name(name)) {
        put(&mut table.exact, name, value.clone())?;
        return put(&mut table.suffixes, text, value);
    }
    match text.strip_suffix('*').filter(|start| start.ends_with('.') && is_name(start.trim_end_matches('.')))
    {
        Some(start) => put(&mut table.prefixes, start, value),
        None => Err(format!("{text:?} is not the name of a host with one * at its start or end").into()),
    }
}

fn put(texts: &mut Vec<(Arc<str>, Template)>, text: &str, value: Template) -> Result<(), Fault> {
    if texts.iter().any(|(known, _)| **known == *text) {
        return Err("it stands twice".into());
    }
    texts.push((text.into(), value));
    Ok(())
}

#[cfg(test)]
mod tests {
    use sluice_config::TemplatePiece;

    use crate::translate::snippet::http_level::{self, HttpSnippet};

    use super::*;

    fn read(text: &str) -> HttpSnippet {
        http_level::read(text).unwrap_or_else(|fault| panic!("{text}: {fault:?}"))
    }

    fn table(snippet: &HttpSnippet, at: usize) -> &TextTable {
        match &snippet.computed[at].table {
            ValueTable::Texts(table) => table,
            ValueTable::Addresses(_) => panic!("{snippet:?}"),
        }
    }

    #[test]
    fn entries_are_told_apart_as_nginx_does() {
        let snippet = read(
            "map $http_host $name {\n hostnames; volatile;\n default 0;\n *.Example.org 1;\n .example.com 2;\n \
             mail.* 3;\n \\default 4;\n ~^a(?<n>b)$ \"$n$scheme\";\n ~*C 6;\n \"\" 7;\n}",
        );
        let table = table(&snippet, 0);
        let texts = |texts: &[(Arc<str>, Template)]| -> Vec<String> {
            texts.iter().map(|(text, value)| format!("{text}={value:?}")).collect()
        };
        let value = |text: &str, value: &str| format!("{text}={:?}", Template::plain(value));
        assert_eq!(texts(&table.exact), [value("example.com", "2"), value("default", "4"), value("", "7")]);
        assert_eq!(texts(&table.suffixes), [value(".example.org", "1"), value(".example.com", "2")]);
        assert_eq!(texts(&table.prefixes), [value("mail.", "3")]);
        assert_eq!(table.expressions.len(), 2);
        assert_eq!(
            table.expressions[0].1.pieces,
            [TemplatePiece::Variable(Variable::Group("1".into())), TemplatePiece::Variable(Variable::Scheme)]
        );
        assert_eq!(table.default, Template::plain("0"));
        assert!(table.removes_final_dot);
        assert_eq!(snippet.declarations.variables, [("name".into(), Moment::Request)]);
    }

    #[test]
    fn a_variable_is_known_when_its_source_and_values_are() {
        let snippet = read(
            "map $upstream_status $kind { ~^5 bad; }\nmap $kind-$uri $both { default a; }\n\
             map $uri $path { / home; }",
        );
        let known: Vec<_> = snippet.declarations.variables.iter().map(|(_, known)| *known).collect();
        assert_eq!(known, [Moment::Response, Moment::Response, Moment::Request]);
    }

    #[test]
    fn what_cannot_be_looked_up_is_refused_by_name() {
        let doubled: String =
            (1..8).map(|at| format!("map $m{}$m{} $m{at} {{ a b; }}\n", at - 1, at - 1)).collect();
        for (text, part) in [
            ("map $host { a b; }", "the name of a variable"),
            ("map $host $uri { a b; }", "$uri is a variable of the gateway"),
            ("map $host $a { a b; }\nmap $host $A { a b; }", "line 2: map: $A is declared twice"),
            ("map $b $a { a b; }\nmap $host $b { a b; }", "the variable $b"),
            ("map $host $a {\n include /etc/passwd;\n}", "line 2: include: snippets reach no files"),
            ("map $host $a { a b; A c; }", "it stands twice"),
            ("map $host $a { default b; default c; }", "it stands twice"),
            ("map $host $a { a b c; }", "takes a value"),
            ("map $host $a { hostnames; a.*.b c; }", "is not the name of a host"),
            ("map $host $a { ~( c; }", "cannot be read"),
            ("map $host $a { a $1; }", "no expression"),
            ("map $request_time $a { a $uri; }", "cannot have variables"),
            ("map $bytes_sent $a { a b; }", "when the request ends"),
            ("map $host $a { if b; b { } }", "no block"),
            (&*format!("map $host $m0 {{ a b; }}\n{doubled}"), "more than 32 tables"),
        ] {
            let fault = http_level::read(text).unwrap_err();
            assert!(format!("{}; {}", fault.reason, fault.remedy).contains(part), "{text}: {fault:?}");
        }
    }
}
