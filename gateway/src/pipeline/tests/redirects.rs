//! The Location of redirects to paths of the host.

use sluice_config::directives::{Condition, Instruction, LocationMatch, Return};
use sluice_config::{
    Balance, Directives, Location, LocationBlock, Locations, Policies, Template, TemplatePiece, Variable,
};

use super::fixture::*;

#[test]
fn redirects_of_a_server_snippet_ignore_settings_of_locations() {
    let text = |text: &str| Template { pieces: vec![TemplatePiece::Text(text.into())] };
    let moved = |to: &str| Instruction::Return(Return::Redirect { status: 302, location: text(to) });
    let at = |path: &str, to: &str| Instruction::If {
        condition: Condition::Equal {
            value: Template { pieces: vec![TemplatePiece::Variable(Variable::Uri)] },
            other: text(path),
            negated: false,
        },
        scope: None,
        then: vec![moved(to)],
    };
    let location = |program| Location { program, ..Location::default() };
    let block = LocationBlock {
        matches: LocationMatch::Exact("/b".into()),
        location: location(vec![moved("/of/b")]),
    };
    let directives = Directives {
        server: location(vec![at("/s", "/of/s")]),
        blocks: vec![block],
        location: location(vec![moved("/of/l")]),
        ..Directives::default()
    };
    let locations = Locations { relative: Some(true), ..Locations::default() };
    let policies = Policies { directives: Some(directives.into()), locations, ..Policies::default() };
    let plane = Plane::with_policies(Balance::RoundRobin, &[1], policies);
    for (path, location) in
        [("/s", "http://a.example/of/s"), ("/b", "http://a.example/of/b"), ("/l", "/of/l")]
    {
        let answer = plane.answer(&Request::get("a.example", path));
        assert_eq!(field(&answer, "location"), Some(location), "{path}");
    }
}
