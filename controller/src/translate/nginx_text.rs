//! Analysis of nginx configuration, to decide whether routes may be served without it.
//!
//! The text is never executed. It is split into directives, so that words in comments, strings,
//! maps or Lua blocks have no effect.

/// Directives that restrict access wherever they occur. An included file is not readable, so
/// `include` is one of them.
const RESTRICTING: [&str; 11] = [
    "deny",
    "allow",
    "satisfy",
    "if",
    "location",
    "internal",
    "limit_except",
    "include",
    "ssl_verify_client",
    "modsecurity",
    "modsecurity_rules",
];

/// Returns whether a text refuses requests that nginx would otherwise serve.
pub(super) fn restricts_access(text: &str) -> bool {
    directives(text).iter().any(|words| {
        let (name, argument) = (&*words[0], words.get(1).map_or("", |word| word));
        match name {
            // `return 301` and `return https://...` redirect; a variable may be any status.
            "return" => argument.starts_with(['4', '5', '$']),
            _ if RESTRICTING.contains(&name) => true,
            _ if name.starts_with("auth_") => argument != "off",
            _ if name.starts_with("limit_") => {
                let defines = ["_zone", "_status", "_log_level", "_dry_run"];
                !defines.iter().any(|end| name.ends_with(end))
            }
            _ => name.starts_with("access_by_lua") || name.starts_with("rewrite_by_lua"),
        }
    })
}

/// Returns whether ModSecurity rules enable its engine. Otherwise it only detects and refuses
/// nothing.
pub(super) fn enforces_rules(text: &str) -> bool {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    lines.map(str::to_ascii_lowercase).any(|line| {
        let engine = line.strip_prefix("secruleengine").map(|rest| rest.trim().trim_matches(['"', '\'']));
        engine == Some("on") || line.replace(' ', "").contains("ruleengine=on")
    })
}

/// Returns the top-level directives of a text, each as words. Contents of blocks are omitted: only
/// the name of a block matters.
fn directives(text: &str) -> Vec<Vec<String>> {
    let (mut directives, mut words, mut depth) = (Vec::new(), Vec::<String>::new(), 0_usize);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '#' => drop(chars.by_ref().find(|c| *c == '\n')),
            '"' | '\'' => words.push(quoted(&mut chars, c)),
            '{' => {
                depth += 1;
                end(&mut words, depth == 1, &mut directives);
            }
            '}' => {
                end(&mut words, depth == 0, &mut directives);
                depth = depth.saturating_sub(1);
            }
            ';' => end(&mut words, depth == 0, &mut directives),
            c if c.is_whitespace() => {}
            c => {
                let mut word = String::from(c);
                while let Some(next) = chars.peek().copied() {
                    let is_variable = next == '{' && word.ends_with('$');
                    if next.is_whitespace() || (!is_variable && ";{".contains(next)) {
                        break;
                    }
                    word.push(next);
                    chars.next();
                    if is_variable {
                        word.extend(chars.by_ref().take_while(|c| *c != '}'));
                    }
                }
                words.push(word);
            }
        }
    }
    // nginx rejects a text whose last directive is not terminated; it is analysed all the same.
    end(&mut words, depth == 0, &mut directives);
    directives
}

fn end(words: &mut Vec<String>, counts: bool, directives: &mut Vec<Vec<String>>) {
    let words = std::mem::take(words);
    if counts && !words.is_empty() {
        directives.push(words);
    }
}

fn quoted(chars: &mut impl Iterator<Item = char>, quote: char) -> String {
    let mut word = String::new();
    while let Some(c) = chars.next() {
        match c {
            '\\' => word.extend(chars.next()),
            c if c == quote => break,
            c => word.push(c),
        }
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_keeps_requests_out_restricts_access() {
        for text in [
            "allow 10.0.0.0/8; deny all;",
            "location /actuator { deny all; }",
            "more_set_headers \"X: y\";\nreturn 403;",
            "return 444;",
            "return $status_of_map;",
            "if ($http_x = \"\") { return 401; }",
            "auth_basic \"staff\";",
            "auth_request /check;",
            "limit_req zone=one burst=5;",
            "limit_except GET { deny all; }",
            "satisfy any;",
            "access_by_lua_block { ngx.exit(403) }",
            "# a comment\n  deny all ;",
            "proxy_buffering off; deny all",
            "include /etc/nginx/blocked.conf;",
        ] {
            assert!(restricts_access(text), "{text}");
        }
    }

    #[test]
    fn text_that_only_adds_something_restricts_nothing() {
        for text in [
            "",
            "more_set_headers \"X-Note: deny all; return 403;\";",
            "# deny all;\nproxy_buffering off;",
            "return 301 https://$host$request_uri;",
            "limit_req_zone $binary_remote_addr zone=one:10m rate=5r/s;",
            "map $http_x $allowed { default deny; \"~x{1}\" allow; }",
            "geo $office { 10.0.0.0/8 1; }",
            "server { listen 8080; location / { deny all; } }",
            "auth_basic off;",
            "header_filter_by_lua_block { if x then return 403 end; deny = 1 }",
            "set $x ${host}deny; proxy_set_header A 'it''s'; gzip on;",
        ] {
            assert!(!restricts_access(text), "{text}");
        }
    }

    #[test]
    fn a_firewall_without_its_engine_enforces_nothing() {
        assert!(enforces_rules("SecRuleEngine On\nSecRule ARGS x"));
        assert!(enforces_rules("  secruleengine  \"On\""));
        assert!(enforces_rules("SecAction \"id:1,ctl:ruleEngine=On\""));
        for text in ["SecRuleEngine DetectionOnly", "# SecRuleEngine On", "SecRule ARGS \"@rx on\"", ""] {
            assert!(!enforces_rules(text), "{text}");
        }
    }
}
