//! `docs/annotations.md`, `docs/configmap.md`, `docs/log-format.md`, `docs/variables.md`,
//! `docs/support.md`, `docs/problems.md` and the counts in `README.md` are made from tables. These
//! tests hold the files against them; with `WRITE_DOCS=1` they write the files instead.

mod tables;

use std::fs;
use std::path::Path;

use sluice_config::{Moment, Variable};
use sluice_controller::translate::global_settings;
use sluice_controller::translate::ingress::annotations;

const ANNOTATIONS: &str = r#"# Annotations

This page lists the annotations of ingress-nginx and of Sluice. It is generated from the tables in
`controller/src/translate/ingress/annotations/`. The prefix is `nginx.ingress.kubernetes.io/`, or the value of `--annotations-prefix`;
names that begin with `sluice.dev/` are complete names of Sluice's own annotations.

An annotation that is not served yet closes its routes with 503 if it protects them or changes responses, whatever
`annotations-risk-level` is; `sluice check` states the reason and the fix. Other annotations only cause a warning.

The column "unreadable value" states the effect of a value that cannot be parsed. A single entry applies to ingress-nginx too.

- *the default*: the value is ignored with a warning.
- *skips the entry*: the other entries of the list apply, with a warning.
- *503*: the routes of the Ingress answer 503 until the value is corrected.
- *rejects the Ingress*: its routes answer 404 until the value is corrected (503 with `--enable-annotation-validation=false`).
- *ignored*: the annotation has no effect with any value.
- *ignores all of its family*: ingress-nginx then serves without the check or redirect that the annotation belongs to.
- *ignored without X*: the annotation has no effect without annotation X.

An empty value counts as absent, as in ingress-nginx, unless the column says *also if it is empty*.

An Ingress is rejected or closed only if serving it would disable a protection that its owner requested, or would send
requests elsewhere. An Ingress is also rejected if a value contains a word of `annotation-value-word-blocklist`, or if a served
annotation has a higher risk than `annotations-risk-level` allows.

A closed Ingress keeps its hosts and paths, and the oldest Ingress still takes precedence: no broader path, wildcard host or
catch-all serves what it covers.

"#;

const CONFIGMAP: &str = r#"# ConfigMap keys

This page lists the keys of the ConfigMap that `--configmap namespace/name` names. It is generated from the tables in
`controller/src/translate/global_settings/`. Changes apply live.

If the ConfigMap is deleted, its last settings stay in force, because they protect all routes. The error `ConfigMapNotFound` reports it
until the ConfigMap is created again. A gateway that starts without the ConfigMap uses the defaults and reports the same error
([decision](decisions/kubernetes-api.md#a-deleted-configmap-keeps-its-settings-until-the-process-ends)). An empty ConfigMap has the defaults.

The column "unreadable value" states the effect of a value that cannot be parsed. The effect is the same in a running process and
after a restart, and a problem reports it. A single entry applies to ingress-nginx too. *Refuses its whole configuration* means
that nginx rejects the text: a running process keeps its configuration, and a new one has none. Sluice does not follow this,
because one value would block all other changes until the next restart.

- *the default*: the value is ignored, and the default applies.
- *skips the entry*: the other entries of the list apply; if no entry of an allow list is valid, all routes answer 503.
- *503 for all routes*: the key protects all routes, so all are closed until the value is corrected. Keys of source ranges and of
  `global-auth-*` protect rules only; the others also close requests for hosts that no Ingress names.
- *ignored*: the key has no effect with any value.
- *ignores all of its family*: ingress-nginx then serves without the check that the key belongs to.

An empty value is read as in ingress-nginx for these keys: it means `false` for a boolean, `Low` for `annotations-risk-level`, and an
empty list for `no-auth-locations`, `no-tls-redirect-locations`, `proxy-real-ip-cidr` and `nginx-status-*-whitelist`. A warning
reports `false` and `Low` where they are not the default. Other keys count as absent then, with a warning if they have a
default; ingress-nginx reads 0 or an empty text, which nginx mostly refuses. Only blanks or line feeds in a key that protects routes
are not empty: they cannot be parsed, as in ingress-nginx, and close all routes.

Integers may have a base and underscores, as in ingress-nginx: `010` and `0o10` are 8, `0x10` is 16, `0b10` is 2, `1_000` is 1000. Exceptions,
which are decimal: `http-redirect-code`, `custom-http-errors`, `proxy-stream-responses`, `worker-processes`, `hsts-max-age` and
`otlp-collector-port`.

Names of keys may be in any case, as in ingress-nginx, except for `global-auth-*`, `bind-address` and
`proxy-protocol-header-timeout`. Of keys whose names differ only in case, the one with the exact name applies, or else the first
in the order of names; a problem names the others.

A snippet that restricts access (`deny`, `allow`, `return` with 4xx or 5xx, `auth_*`, `limit_*`, `satisfy`, `if`, `location`,
`include` and similar) closes all routes, because they would be open without it.

"#;

const SUPPORT: &str = r#"# Supported settings of ingress-nginx

This page counts the settings of ingress-nginx by their support in Sluice. It is generated from the program's own tables. Run
`sluice check` to see the effect on your cluster.

"#;

const LOG: &str = r#"# Format of the access log

This page describes the lines of the access log: their format, and which requests have one. The format is the value of the ConfigMap
key `log-format-upstream`. It is text with variables, written `$name` or `${name}`. It equals the text between the quotes of nginx's
`log_format`, including the escapes `\"`, `\'`, `\\`, `\t`, `\r` and `\n`. It may have all variables of [variables.md](variables.md). With
a name that is not listed there, the value is rejected and the default format applies.

The default is that of ingress-nginx, byte for byte:

    @DEFAULT@

A missing value is written as `-`, or as nothing with `log-format-escape-json` or `log-format-escape-none`. Values of several
attempts are separated by `, `.

## Lines of JSON

`log-format-preset: json` writes each line as an object. It has the values of the default format under their names, the time as in
ISO 8601, and the ids of the trace as OpenTelemetry names them in logs (empty for requests without a [trace](tracing.md)). All values
are escaped, regardless of `log-format-escape-none`. A missing value is an empty string. The preset equals this format:

    @JSON@

With `log-format-upstream`, which takes precedence, the preset has no effect, and a problem reports it. For other fields, write the format
yourself and set `log-format-escape-json` to `true`:

    {"time": "$time_iso8601", "status": $status, "path": "$uri", "took": $request_time}

## Which requests are logged

Each request has a line. These keys omit lines; without them, the log costs the same as before.

| key | effect |
|---|---|
| `access-log-filter-status` | logs requests with these statuses: `5xx,404,301-308` |
| `access-log-filter-min-duration` | logs requests whose `$request_time` is this long or longer: `500ms` |
| `access-log-sample` | logs this share of the other requests, chosen at random: `1%` |
| `skip-access-log-urls`, annotation `enable-access-log` | omit lines whatever the other keys select |

A request is logged if its status or its duration is selected, otherwise with the probability of the sample. The sample is 0 % by default
with one of the `access-log-filter-*` keys, and 100 % without. For example, these keys log errors, slow requests, and one in a hundred of
all others:

```yaml
data:
  access-log-filter-status: 4xx,5xx
  access-log-filter-min-duration: 500ms
  access-log-sample: 1%
```

A client that leaves before its response has the status 499. A call of an authorisation service (`enable-auth-access-log`) is logged with
the request if that is in the sample, otherwise by its own status and duration. `otlp-access-log` sends the same lines. Metrics, traces and
the log of streams are not filtered.
"#;

const VARIABLES: &str = r#"# Variables

This page lists the variables of nginx and the settings whose values may have them, as `$name` or `${name}`. It is generated from
the table in `config/src/variable.rs`, which is the only one: header fields, keys, redirects, rewrites, snippets and log formats
read the same variables. The case of a name does not count.

- A name that is not listed here makes the value invalid, as it stops nginx. The effect is that of an unreadable value.
- A variable whose value is known later than the setting needs it is empty there, as in nginx. The problem `VariableWithoutValue`
  names it. A field with an empty value is removed. An `auth-cache-key` with such a variable keeps nothing,
  `limit-conn-zone-variable` ignores it, and a snippet is refused.
- `upstream-vhost` is invalid with such a variable. A request for which its value is empty, or no host, gets 400.
- Snippets may also name the variables that they set and the groups of their expressions.

## Where variables are accepted

A setting may have the variables that are known by its moment, and all that are known before it: with the rule, with the
connection (TLS, PROXY protocol), with the request head, after authentication, with the attempt, with the response head, at the
end of the request.

"#;

const VARIABLES_TABLE: &str = r#"
## Variables

A value that the client determines can be forged. Values of several attempts are separated by `, `.

"#;

const VARIABLES_LOCATIONS: &str = "
## Variables of GeoIP2 databases

With `use-geoip2: \"true\"` in the ConfigMap, the databases of `--maxmind-edition-ids` are read from the folder `--geoip-path`, and
again within seconds when a file changes. Put a file in place whole, by renaming, as `geoipupdate` does. The variables are known with
the request head and are about `$remote_addr`; without the database they are empty. `sluice.dev/allow-countries` and
`sluice.dev/deny-countries` use the country of a database of countries or cities.

";
const VARIABLES_UNSERVED: &str = r#"
## Always empty

nginx or the template of ingress-nginx has these variables, and Sluice has no value for them.

"#;

const STREAM_LOG: &str = r#"
## Streams

TCP connections, UDP sessions and TLS that is passed through have one line each, in the format of the ConfigMap key
`log-format-stream`. The line is written when the stream ends. Values are escaped as in nginx, and a missing value is `-`. The
default is that of ingress-nginx, byte for byte:

    @DEFAULT@

Lines go to `stream-access-log-path`, or else to `access-log-path`; never to syslog. Generated from the table in `config/src/stream_log.rs`.

"#;

const PROBLEMS: &str = r#"# Problems

This page lists the kinds of problems that Sluice reports, by code. It is generated from the table in
`config/src/problem/code.rs`. A problem names the object (with its uid), the field, what is wrong and how to fix it. A code never
changes its meaning. The same problem goes to the log, `sluice check` (`-o json`), `sluice problems` (`-o json`), the admin
listener and the metrics `sluice_problems` and `sluice_problems_by_code`.

The class states who can fix the problem:

| class | fixed by |
|---|---|
| `own-fault` | the author of the object |
| `missing-reference` | the creator of the object that is referenced |
| `conflict` | the authors of two objects |
| `not-served` | the author, by removing what Sluice does not serve |
| `data-plane`, `source` | the operator of the gateway |

"#;

#[test]
fn the_list_of_annotations_is_that_of_the_table() {
    compare("annotations.md", ANNOTATIONS, &annotations::markdown_table());
}

#[test]
fn the_list_of_configmap_keys_is_that_of_the_table() {
    compare("configmap.md", CONFIGMAP, &global_settings::markdown_table());
}

#[test]
fn served_settings_are_counted_from_the_tables() {
    let table = format!(
        "## Annotations\n\n{}\n## ConfigMap keys\n\n{}",
        annotations::markdown_support("annotations.md"),
        global_settings::markdown_support("configmap.md")
    );
    compare("support.md", SUPPORT, &table);
}

#[test]
fn the_list_of_stream_variables_is_that_of_the_table() {
    let head = LOG
        .replace("@DEFAULT@", sluice_config::LogFormat::DEFAULT)
        .replace("@JSON@", sluice_config::LogFormat::JSON);
    let streams = STREAM_LOG.replace("@DEFAULT@", sluice_config::StreamLog::DEFAULT);
    compare("log-format.md", &head, &format!("{streams}{}", tables::stream_variables()));
}

#[test]
fn the_list_of_variables_is_that_of_the_table() {
    let mut accepted = String::from("| settings | known by then |\n|---|---|\n");
    for (moment, of_snippets) in [
        (Moment::Rule, ""),
        (Moment::Request, "directives of [snippets](snippets.md) about requests"),
        (Moment::Response, "directives of [snippets](snippets.md) about responses"),
        (Moment::End, ""),
    ] {
        let settings = [
            annotations::markdown_accepting(moment, "annotations.md"),
            global_settings::markdown_accepting(moment, "configmap.md"),
            of_snippets.to_owned(),
        ];
        let settings: Vec<&str> = settings.iter().map(|one| &**one).filter(|one| !one.is_empty()).collect();
        accepted.push_str(&format!("| {} | {} |\n", settings.join(", "), moment.as_str()));
    }
    let [table, locations, unserved] = [tables::variables(), tables::locations(), tables::unserved()];
    let text = format!(
        "{accepted}{VARIABLES_TABLE}{table}{VARIABLES_LOCATIONS}{locations}{VARIABLES_UNSERVED}{unserved}"
    );
    compare("variables.md", VARIABLES, &text);
}

/// The variables of the modules that ingress-nginx builds into nginx, and those of its template.
const NAMES_OF_THE_REFERENCE: &str = "\
    ancient_browser args balancer_ewma_score best_http_host binary_remote_addr body_bytes_sent brotli_ratio \
    bytes_sent connection connection_requests connection_time connections_active connections_reading \
    connections_waiting connections_writing content_length content_type date_gmt date_local document_root \
    document_uri fastcgi_path_info fastcgi_script_name gzip_ratio host hostname http2 https ingress_name \
    invalid_referer is_args limit_rate location_path loggable memcached_key modern_browser msec msie namespace \
    nginx_version pass_access_scheme pass_port pass_server_port pid pipe proxy_add_x_forwarded_for \
    proxy_alternative_upstream_name proxy_host proxy_port proxy_protocol_addr proxy_protocol_port \
    proxy_upstream_name query_string realip_remote_addr realip_remote_port realpath_root remote_addr remote_port \
    remote_user req_id request request_body request_body_file request_completion request_filename request_id \
    request_length request_method request_time request_uri scheme secure_link secure_link_expires server_addr \
    server_name server_port server_protocol service_name service_port ssl_cipher ssl_ciphers ssl_protocol \
    ssl_server_name ssl_session_id status tcpinfo_rtt the_real_ip time_iso8601 time_local uid_got uid_reset \
    uid_set upstream_addr upstream_cache_status upstream_status uri";

/// `$content_type` and `$content_length` were missing.
#[test]
fn the_page_lists_every_name_that_is_accepted() {
    let page = [tables::variables(), tables::unserved()].concat();
    for name in NAMES_OF_THE_REFERENCE.split_whitespace() {
        assert!(Variable::named(name).is_some(), "${name} is not accepted");
        assert!(page.contains(&format!("`${name}`")), "${name} is missing");
    }
}

/// The README contains the counts between two marks.
#[test]
fn the_readme_has_the_counts() {
    const MARKS: [&str; 2] =
        ["<!-- counts: made by the test of docs/support.md -->\n", "<!-- end of counts -->"];
    let line = |table: &str, of: &str| {
        let count = |support: &str| {
            let row = table.lines().find_map(|line| line.strip_prefix(&format!("| {support} | ")));
            row.and_then(|rest| rest.split(' ').next()).expect("a number").to_owned()
        };
        let counts = ["full", "partial", "ignored", "refused", "no effect", "as in ingress-nginx"]
            .map(count)
            .join(" | ");
        format!("| {} {of} | {counts} |\n", count("all"))
    };
    let table = format!(
        "| settings, with Sluice's own | served | served except for some values | ignored with a warning | refused: a \
         route is closed, a key is a problem | accepted, without effect | accepted, and nginx ignores it, too \
         |\n|---|---|---|---|---|---|---|\n{}{}",
        line(&annotations::markdown_support(""), "[annotations](docs/annotations.md)"),
        line(&global_settings::markdown_support(""), "[ConfigMap keys](docs/configmap.md)"),
    );
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let written = fs::read_to_string(&path).unwrap();
    let (before, rest) = written.split_once(MARKS[0]).expect("the first mark");
    let (_, after) = rest.split_once(MARKS[1]).expect("the second mark");
    let text = format!("{before}{}{table}{}{after}", MARKS[0], MARKS[1]);
    if std::env::var_os("WRITE_DOCS").is_some() {
        fs::write(&path, &text).unwrap();
    } else {
        assert!(
            written == text,
            "README.md has other counts than the tables; run the tests with WRITE_DOCS=1"
        );
    }
}

#[test]
fn the_list_of_problem_codes_is_that_of_the_table() {
    compare("problems.md", PROBLEMS, &tables::codes());
}

fn compare(name: &str, head: &str, table: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs").join(name);
    let text = format!("{head}{table}");
    if std::env::var_os("WRITE_DOCS").is_some() {
        fs::write(&path, &text).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(written == text, "docs/{name} differs from the table; run the tests with WRITE_DOCS=1");
}
