//! The rules of the command line, one test each.

use std::collections::BTreeSet;
use std::time::Duration;

use sluice_config::NamespacedName;
use sluice_controller::{DutyOptions, Options};

use super::error::FlagError;
use super::parse::ParsedCommandLine;
use super::*;

/// The flags listed in the reference's documentation, as an independent copy to verify the table.
const REFERENCE: &str = "annotations-prefix apiserver-host bucket-factor certificate-authority configmap \
    controller-class deep-inspect default-backend-service default-server-port default-ssl-certificate \
    disable-catch-all disable-full-test disable-leader-election disable-svc-external-name disable-sync-events \
    dynamic-configuration-retries election-id election-ttl enable-annotation-validation enable-metrics \
    enable-ssl-chain-completion enable-ssl-passthrough enable-topology-aware-routing exclude-socket-metrics \
    health-check-path health-check-timeout healthz-host healthz-port http-port https-port ingress-class \
    ingress-class-by-name internal-logger-address kubeconfig length-buckets max-buckets maxmind-edition-ids \
    maxmind-license-key maxmind-mirror maxmind-retries-count maxmind-retries-timeout metrics-per-host \
    metrics-per-undefined-host monitor-max-batch-size post-shutdown-grace-period profiler-address profiler-port \
    profiling publish-service publish-status-address report-node-internal-ip-address report-status-classes \
    shutdown-grace-period size-buckets ssl-passthrough-proxy-port status-port status-update-interval stream-port \
    sync-period sync-rate-limit tcp-services-configmap time-buckets udp-services-configmap update-status \
    update-status-on-shutdown v validating-webhook validating-webhook-certificate validating-webhook-key version \
    watch-ingress-without-class watch-namespace watch-namespace-selector";

fn run(line: &str) -> Result<ParsedCommandLine, FlagError> {
    parse(line.split_whitespace().map(Into::into), |_| None)
}

/// Parses the flags of a valid `serve` command.
fn serve(line: &str) -> (ServeFlags, Vec<String>) {
    let parsed = run(&format!("--manifests m {line}")).unwrap();
    match parsed.command {
        Command::Serve(flags) => (*flags, parsed.warnings),
        other => panic!("{other:?}"),
    }
}

fn error(line: &str) -> String {
    let message = run(line).unwrap_err().to_string();
    assert!(!message.contains('\n'), "{message}");
    message
}

#[test]
fn all_flags_of_the_reference_are_in_the_table_once() {
    let names: Vec<&str> = table::all().map(|flag| flag.name).collect();
    let set: BTreeSet<&str> = names.iter().copied().collect();
    assert_eq!(set.len(), names.len(), "a name is there twice");
    let reference: Vec<&str> = REFERENCE.split_whitespace().collect();
    assert_eq!(reference.len(), 73);
    for name in reference {
        assert!(set.contains(name), "{name}");
    }
}

#[test]
fn every_default_is_valid_and_agrees_with_the_controller() {
    for flag in table::all().filter(|flag| !flag.default.is_empty()) {
        let put = flag.value.put(flag.default, &mut ServeFlags::empty());
        assert_eq!(put, Ok(()), "{}", flag.name);
    }
    let flags = arguments::defaults();
    assert_eq!(format!("{:?}", flags.controller), format!("{:?}", Options::default()));
    assert_eq!(format!("{:?}", flags.duties), format!("{:?}", DutyOptions::default()));
    assert_eq!(flags.gateway.healthz_port, 10254);
    assert_eq!(flags.gateway.admin_address.to_string(), "127.0.0.1:10246");
    assert!(flags.gateway.metrics_per_host && !flags.gateway.enable_metrics);
}

#[test]
fn both_forms_of_a_value_are_read() {
    assert_eq!(serve("--http-port 8080 --https-port=8443").0.controller.http_port, 8080);
    assert_eq!(serve("--http-port 8080 --https-port=8443").0.controller.https_port, 8443);
}

#[test]
fn the_last_of_a_repeated_flag_wins() {
    assert_eq!(serve("--http-port 1 --http-port 2").0.controller.http_port, 2);
}

#[test]
fn a_bool_is_read_as_go_reads_it() {
    assert!(serve("--enable-metrics").0.gateway.enable_metrics);
    for yes in ["1", "t", "T", "true", "TRUE", "True"] {
        assert!(serve(&format!("--enable-metrics={yes}")).0.gateway.enable_metrics, "{yes}");
    }
    for no in ["0", "f", "F", "false", "FALSE", "False"] {
        assert!(!serve(&format!("--metrics-per-host={no}")).0.gateway.metrics_per_host, "{no}");
    }
    assert!(error("--manifests m --enable-metrics=yes").contains("needs true or false"));
    assert!(error("--manifests m --enable-metrics=").contains("--enable-metrics"));
}

#[test]
fn a_bool_never_takes_the_next_word() {
    let message = error("--manifests m --enable-metrics false");
    assert!(message.contains("\"false\"") && message.contains("--flag=false"), "{message}");
    assert!(serve("--enable-metrics --http-port 81").0.gateway.enable_metrics);
}

#[test]
fn a_value_may_begin_with_a_dash() {
    assert!(error("--manifests m --http-port -1").contains("a port number from 0 to 65535"));
    assert!(error("--manifests m --http-port=-1").contains("a port number from 0 to 65535"));
}

#[test]
fn lists_come_by_commas_and_by_repetition_and_replace_the_default() {
    let (flags, _) = serve("--exclude-socket-metrics a,b --exclude-socket-metrics c");
    assert_eq!(flags.gateway.exclude_socket_metrics, ["a", "b", "c"]);
    assert_eq!(serve("--time-buckets .1,1 --time-buckets=10").0.gateway.time_buckets, [0.1, 1.0, 10.0]);
    assert_eq!(serve("").0.gateway.length_buckets.len(), 10);
    assert!(error("--manifests m --time-buckets 2,1").contains("rising order"));
    assert!(error("--manifests m --time-buckets 2,x").contains("a number"));
}

#[test]
fn seconds_durations_and_objects_are_typed() {
    assert_eq!(serve("--shutdown-grace-period 5").0.gateway.shutdown_grace_period, Duration::from_secs(5));
    assert!(error("--manifests m --shutdown-grace-period 5s").contains("a duration in seconds"));
    assert!(error("--manifests m --election-ttl 5").contains("1h30m"));
    let (flags, _) = serve("--configmap ingress-nginx/controller");
    assert_eq!(flags.controller.configmap, Some(NamespacedName::new("ingress-nginx", "controller")));
    assert_eq!(serve("--configmap=").0.controller.configmap, None);
    assert!(error("--manifests m --configmap controller").contains("namespace/name"));
    assert!(error("--manifests m --healthz-host nowhere").contains("an IP address"));
    assert!(error("--manifests m --health-check-path ready").contains("begins with /"));
}

#[test]
fn a_flag_without_effect_is_reported_with_a_remedy() {
    let (_, warnings) = serve("--deep-inspect=false --enable-metrics");
    assert_eq!(
        warnings,
        ["flag --deep-inspect has no effect: no configuration text is generated from objects, so there \
             is nothing to inspect; remove this flag"]
    );
}

#[test]
fn a_flag_without_effect_is_still_checked() {
    assert!(error("--manifests m --status-update-interval soon").contains("a duration in seconds"));
}

#[test]
fn klog_flags_are_accepted() {
    let line =
        "-v=2 --logtostderr=true --alsologtostderr --stderrthreshold INFO --vmodule a=1 --log_dir /tmp";
    assert_eq!(serve(line).0.verbosity, 2);
    assert_eq!(serve("--v=5").0.verbosity, 5);
    assert_eq!(serve("--v 4").0.verbosity, 4);
}

#[test]
fn an_unknown_flag_names_the_nearest() {
    let message = error("--manifests m --htp-port 80");
    assert!(message.contains("--htp-port") && message.contains("did you mean --http-port?)"), "{message}");
    assert!(error("--nonsense-xyz").contains("sluice serve --help"));
}

#[test]
fn a_missing_value_is_named() {
    assert_eq!(
        error("--manifests m --http-port"),
        "--http-port needs a value: write --http-port VALUE or --http-port=VALUE"
    );
}

#[test]
fn flags_that_exclude_each_other_end_the_program() {
    assert!(
        error("--manifests m --publish-service a/b --publish-status-address 1.2.3.4").contains("exclude")
    );
    assert!(error("--manifests m --watch-namespace a --watch-namespace-selector b=c").contains("exclude"));
    for flag in ["--kubeconfig c", "--apiserver-host https://a", "--snapshot-file s"] {
        assert!(error(&format!("--manifests m {flag}")).contains("exclude"), "{flag}");
    }
    serve("--kubeconfig= --apiserver-host=");
    serve("--watch-namespace= --watch-namespace-selector b=c");
    let message = error("--manifests m --metrics-per-undefined-host --metrics-per-host=false");
    assert!(message.contains("needs --metrics-per-host"), "{message}");
}

#[test]
fn a_namespace_selector_follows_kubernetes() {
    for good in ["env in(prod)", "env=prod,tier!=db,!legacy", " env notin (a,b) ", "rank>3"] {
        let words = ["serve", "--manifests", "m", "--watch-namespace-selector", good];
        assert!(parse(words.map(Into::into), |_| None).is_ok(), "{good}");
    }
    for bad in ["env in prod", "a b", "=x", "a,,b"] {
        for command in ["serve", "check"] {
            let words = [command, "--manifests", "m", "--watch-namespace-selector", bad];
            let message = parse(words.map(Into::into), |_| None).unwrap_err().to_string();
            assert!(message.contains("it needs a label selector such as env=prod"), "{bad}: {message}");
        }
    }
}

#[test]
fn the_webhook_needs_its_files() {
    let message = error("--manifests m --validating-webhook :8443 --validating-webhook-key k");
    assert!(message.contains("--validating-webhook needs --validating-webhook-certificate"), "{message}");
    let line = "--validating-webhook :8443 --validating-webhook-key k --validating-webhook-certificate c";
    assert!(serve(line).0.webhook.options().is_some() && serve("").0.webhook.options().is_none());
    assert!(error(&format!("--manifests m {line} --http-port 8443")).contains("8443"));
}

#[test]
fn one_port_for_two_listeners_is_refused_and_port_zero_is_not() {
    let message = error("--manifests m --http-port 9000 --https-port 9000");
    assert_eq!(message, "port 9000 is already in use by --http-port. Please check the flag --https-port");
    serve("--http-port 0 --https-port 0 --healthz-port 0 --admin-address 127.0.0.1:0");
}

#[test]
fn serve_is_the_default_subcommand_and_check_needs_a_folder() {
    assert!(matches!(run("serve --manifests m").unwrap().command, Command::Serve(_)));
    assert!(matches!(run("--manifests m").unwrap().command, Command::Serve(_)));
    assert!(matches!(run("").unwrap().command, Command::Serve(_)));
    assert!(error("check").contains("check needs --manifests DIR"));
}

#[test]
fn check_takes_the_flags_of_serve() {
    let check = |line: &str| match run(line).unwrap().command {
        Command::Check(check) => *check,
        other => panic!("{other:?}"),
    };
    let wanted = check("check --manifests m --ingress-class other -o json --strict");
    assert_eq!(wanted.flags.controller.ingress_class, "other");
    assert_eq!((wanted.output, wanted.strict), (CheckOutput::Json, true));
    let wanted = check("check --manifests m");
    assert_eq!((wanted.output, wanted.strict), (CheckOutput::Text, false));
    assert_eq!(check("check --manifests m -o markdown").output, CheckOutput::Markdown);
    assert!(error("check --manifests m -o yaml").contains("text, json, markdown or html"));
}

#[test]
fn the_running_gateway_is_asked_in_two_forms() {
    let show = |line: &str| match run(line).unwrap().command {
        Command::Show(show) => show,
        other => panic!("{other:?}"),
    };
    let default = show("routes");
    assert_eq!((default.view, default.output), (ConfigurationView::Routes, Output::Table));
    assert_eq!(default.admin_address.to_string(), "127.0.0.1:10246");
    let json = show("backends -o json --admin-address 127.0.0.1:9");
    assert_eq!(
        (json.view, json.output, json.admin_address.port()),
        (ConfigurationView::Backends, Output::Json, 9)
    );
    assert_eq!(show("certs --output=json").output, Output::Json);
    assert!(error("problems -o yaml").contains("json or table"));
    assert_eq!(show("routes").request, None);
    let request = show("routes --host a.example --path /x?y --header x:1 --header y:2 --https --client ::1")
        .request
        .unwrap();
    assert_eq!(
        (request.host.as_str(), request.path.as_str(), request.method.as_str()),
        ("a.example", "/x?y", "GET")
    );
    assert_eq!(request.client, "::1");
    assert_eq!((request.headers, request.https), (vec!["x:1".to_owned(), "y:2".to_owned()], true));
    assert!(error("backends --host a.example").contains("unknown flag --host"));
}

#[test]
fn version_and_help_come_in_every_place() {
    assert!(matches!(run("--version").unwrap().command, Command::Version));
    assert!(matches!(run("version").unwrap().command, Command::Version));
    for line in [
        "--help",
        "-h",
        "serve --help",
        "check --help",
        "routes --help",
        "wait-shutdown --help",
        "help",
        "help serve",
    ] {
        assert!(matches!(run(line).unwrap().command, Command::Help(_)), "{line}");
    }
    let Command::Help(text) = run("serve --help").unwrap().command else { panic!() };
    assert!(text.contains("--http-port <PORT>") && text.contains("[default: 80]"), "{text}");
}

#[test]
fn a_flag_that_needs_another_one_names_it() {
    for (line, message) in [
        ("routes --path /x", "--path needs --host; add --host or remove --path"),
        ("routes --https", "--https needs --host; add --host or remove --https"),
        ("routes --client ::1", "--client needs --host; add --host or remove --client"),
        (
            "check --manifests m --log-format x",
            "--log-format needs --access-log; add --access-log or remove --log-format",
        ),
        ("check --manifests m --release a/b", "--release needs --values; add --values or remove --release"),
        ("check --manifests m --rate 1", "--rate needs --against; add --against or remove --rate"),
        ("check --manifests m --new x", "--new needs --against; add --against or remove --new"),
        (
            "serve --validating-webhook=:8443",
            "--validating-webhook needs --validating-webhook-certificate; add --validating-webhook-certificate or remove \
             --validating-webhook",
        ),
        (
            "serve --metrics-per-undefined-host --metrics-per-host=false",
            "--metrics-per-undefined-host needs --metrics-per-host; set --metrics-per-host=true or remove \
             --metrics-per-undefined-host",
        ),
    ] {
        assert_eq!(error(line), message, "{line}");
    }
}

#[test]
fn every_bool_may_be_given_with_its_value() {
    for (line, expected) in [
        ("check --manifests m --strict", true),
        ("check --manifests m --strict=true", true),
        ("check --manifests m --strict=false", false),
        ("check --manifests m", false),
    ] {
        let Command::Check(check) = run(line).unwrap().command else { panic!("{line}") };
        assert_eq!(check.strict, expected, "{line}");
    }
    let Command::Show(show) = run("routes --host a.example --https=false").unwrap().command else { panic!() };
    assert!(!show.request.unwrap().https);
    assert!(run("top --once=true --all=0").is_ok());
    assert!(error("top --once=maybe").contains("needs true or false"));
}

#[test]
fn an_unknown_flag_names_the_help_of_its_subcommand() {
    for command in ["version", "wait-shutdown", "routes", "top", "bundle", "check", "webhook-cert"] {
        let message = error(&format!("{command} --foo"));
        assert!(message.contains(&format!("`sluice {command} --help`")), "{message}");
    }
}

#[test]
fn every_flag_of_klog_2_140_is_known() {
    let names = "add_dir_header alsologtostderr alsologtostderrthreshold legacy_stderr_threshold_behavior log_backtrace_at \
        log_dir log_file log_file_max_size logtostderr one_output skip_headers skip_log_headers stderrthreshold v vmodule";
    for name in names.split_whitespace() {
        assert!(table::all().any(|flag| flag.name == name), "{name}");
    }
    assert!(
        run("--manifests m --legacy_stderr_threshold_behavior=false --alsologtostderrthreshold INFO").is_ok()
    );
}

#[test]
fn an_election_ttl_of_zero_is_the_default() {
    for line in ["", "--election-ttl=0", "--election-ttl 0s", "--election-ttl=-5s"] {
        assert_eq!(serve(line).0.duties.election_ttl, Duration::from_secs(30), "{line}");
    }
    assert_eq!(serve("--election-ttl 5s").0.duties.election_ttl, Duration::from_secs(5));
}

#[test]
fn an_unknown_subcommand_lists_those_there_are() {
    assert!(error("frobnicate").contains("serve, check, routes"));
}

#[test]
fn the_pod_is_named_by_the_environment() {
    let words = ["--manifests", "m"].map(Into::into);
    let parsed = parse(words, |name| Some(format!("value of {name}"))).unwrap();
    let Command::Serve(flags) = parsed.command else { panic!() };
    assert_eq!(flags.gateway.pod_name, "value of POD_NAME");
    assert_eq!(flags.gateway.pod_namespace, "value of POD_NAMESPACE");
    assert_eq!(flags.controller.node_name.as_deref(), Some("value of NODE_NAME"));
}
