use sluice_config::Expression as Pattern;
use sluice_config::Location;

use super::*;

fn selector(matches: &[LocationMatch]) -> BlockSelector {
    let block =
        |matches: &LocationMatch| LocationBlock { matches: matches.clone(), location: Location::default() };
    BlockSelector::compile(&matches.iter().map(block).collect::<Vec<_>>()).unwrap()
}

fn regex(text: &str) -> LocationMatch {
    LocationMatch::Expression(Pattern::Plain(text.into()))
}

#[test]
fn exact_final_prefix_expression_and_longest_prefix_win_in_this_order() {
    let all = selector(&[
        LocationMatch::Prefix("/a".into()),
        LocationMatch::Prefix("/a/long".into()),
        LocationMatch::FinalPrefix("/f".into()),
        regex("\\.php$"),
        regex("^/"),
        LocationMatch::Exact("/a/x.php".into()),
    ]);
    let root = RouteRank::Prefix(1);
    for (path, expected) in
        [("/a/x.php", Some(5)), ("/f/x.php", Some(2)), ("/a/y.php", Some(3)), ("/a/long", Some(4))]
    {
        assert_eq!(all.select(path, root), expected, "{path}");
    }
    let prefixes = selector(&[LocationMatch::Prefix("/a".into()), LocationMatch::Prefix("/a/long".into())]);
    assert_eq!(prefixes.select("/a/longer", root), Some(1), "a prefix is text, not a path element");
    assert_eq!(prefixes.select("/ab", root), Some(0));
    assert_eq!(prefixes.select("/b", root), None);
}

#[test]
fn the_location_of_the_rule_takes_part_by_its_own_path() {
    let prefix = selector(&[LocationMatch::Prefix("/a".into())]);
    assert_eq!(prefix.select("/a/b", RouteRank::Prefix(4)), None, "the longer prefix wins");
    assert_eq!(prefix.select("/a/b", RouteRank::Exact), None);
    assert_eq!(prefix.select("/a/b", RouteRank::Expression), None, "an expression wins over a prefix");
    let firm = selector(&[LocationMatch::FinalPrefix("/a".into())]);
    assert_eq!(firm.select("/a/b", RouteRank::Expression), Some(0));
    assert_eq!(firm.select("/a/b", RouteRank::Prefix(4)), None);
    let expression = selector(&[regex("b$")]);
    assert_eq!(expression.select("/a/b", RouteRank::Prefix(4)), Some(0));
    assert_eq!(expression.select("/a/b", RouteRank::Expression), Some(0), "server snippets come first");
    assert_eq!(expression.select("/a/b", RouteRank::Exact), None);
}
