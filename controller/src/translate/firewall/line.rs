//! One directive: whether it may be run, and its effect on the whole.
//!
//! The texts come from tenants. A directive is accepted if it is known and concerns nothing but the
//! requests of its rules: none reads or writes a file of the agent's machine, runs a program or
//! sends a query to another machine.

/// The effect of a directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LineEffect {
    /// The agent runs it. `enforces`: it enables the engine for some requests.
    Keep { enforces: bool },
    /// It switches the engine: whether rules refuse requests.
    Engine(bool),
    /// It changes other rules.
    Change,
    /// It includes ModSecurity's recommended configuration.
    Recommended,
    /// It includes the core rule set.
    CoreRules,
    /// It includes this file of the core rule set.
    Include(String),
    /// It has no effect here, for this reason.
    Ignore(String),
}

/// Directives that are run as they are.
const KEPT: [&str; 31] = [
    "SecAction",
    "SecArgumentSeparator",
    "SecArgumentsLimit",
    "SecAuditEngine",
    "SecAuditLogFormat",
    "SecAuditLogParts",
    "SecAuditLogRelevantStatus",
    "SecCollectionTimeout",
    "SecComponentSignature",
    "SecCookieFormat",
    "SecDataset",
    "SecDefaultAction",
    "SecMarker",
    "SecPcreMatchLimit",
    "SecPcreMatchLimitRecursion",
    "SecRequestBodyAccess",
    "SecRequestBodyInMemoryLimit",
    "SecRequestBodyJsonDepthLimit",
    "SecRequestBodyLimit",
    "SecRequestBodyLimitAction",
    "SecRequestBodyNoFilesLimit",
    "SecResponseBodyAccess",
    "SecResponseBodyJsonDepthLimit",
    "SecResponseBodyLimit",
    "SecResponseBodyLimitAction",
    "SecResponseBodyMimeType",
    "SecResponseBodyMimeTypesClear",
    "SecRule",
    "SecSensorId",
    "SecServerSignature",
    "SecWebAppId",
];

/// Directives that change rules before them.
const CHANGES: [&str; 6] = [
    "SecRuleRemoveById",
    "SecRuleRemoveByMsg",
    "SecRuleRemoveByTag",
    "SecRuleUpdateActionById",
    "SecRuleUpdateTargetById",
    "SecRuleUpdateTargetByTag",
];

const NO_FILE: &str = "the agent writes its log to the standard output";
const NO_UPLOADS: &str = "the agent keeps no uploads and no data in files";

/// Directives without an effect on decisions, each with the reason.
const IGNORED: [(&str, &str); 17] = [
    ("SecAuditLogDirMode", NO_FILE),
    ("SecAuditLogFileMode", NO_FILE),
    ("SecAuditLogStorageDir", NO_FILE),
    ("SecAuditLogType", NO_FILE),
    ("SecConnEngine", "connections are limited by annotations"),
    ("SecConnReadStateLimit", "connections are limited by annotations"),
    ("SecConnWriteStateLimit", "connections are limited by annotations"),
    ("SecDataDir", NO_UPLOADS),
    ("SecDebugLog", NO_FILE),
    ("SecDebugLogLevel", "the agent's flag --log-level sets the level"),
    ("SecStatusEngine", "nothing is reported to others"),
    ("SecTmpDir", NO_UPLOADS),
    ("SecUnicodeMapFile", "the engine has its own table"),
    ("SecUploadDir", NO_UPLOADS),
    ("SecUploadFileLimit", NO_UPLOADS),
    ("SecUploadFileMode", NO_UPLOADS),
    ("SecUploadKeepFiles", NO_UPLOADS),
];

/// Operators that read files, run programs or query other machines, in lower case.
const REFUSED_OPERATORS: [&str; 11] = [
    "fuzzyhash",
    "geolookup",
    "gsblookup",
    "inspectfile",
    "ipmatchf",
    "ipmatchfromfile",
    "pmf",
    "pmfromfile",
    "rbl",
    "validatedtd",
    "validateschema",
];

/// Actions that run programs or change the agent's process, in lower case.
const REFUSED_ACTIONS: [&str; 3] = ["exec", "proxy", "setenv"];

const OF_NGINX: &str = "/etc/nginx/";

/// Reads a directive. The error names it.
pub(super) fn line(text: &str) -> Result<LineEffect, String> {
    let words = words(text);
    let (name, arguments) = words.split_first().ok_or("it has no directive")?;
    let is = |known: &&str| known.eq_ignore_ascii_case(name);
    if name.eq_ignore_ascii_case("Include") {
        return include(arguments);
    }
    if name.eq_ignore_ascii_case("SecRuleEngine") {
        return match &*arguments.first().map(|word| word.to_ascii_lowercase()).unwrap_or_default() {
            "on" => Ok(LineEffect::Engine(true)),
            "off" | "detectiononly" => Ok(LineEffect::Engine(false)),
            other => Err(format!("SecRuleEngine {other:?} is not On, Off or DetectionOnly")),
        };
    }
    if name.eq_ignore_ascii_case("SecAuditLog") {
        return Ok(match arguments.first().map(String::as_str) {
            Some("/dev/stdout" | "/dev/stderr") => LineEffect::Keep { enforces: false },
            _ => LineEffect::Ignore(format!(
                "{name}: {NO_FILE}; /dev/stdout is the only other destination of the audit log"
            )),
        });
    }
    if let Some((_, reason)) = IGNORED.iter().find(|(known, _)| is(known)) {
        return Ok(LineEffect::Ignore(format!("{name}: {reason}")));
    }
    if !KEPT.iter().chain(&CHANGES).any(&is) {
        return Err(format!(
            "{name} is not available: the agent does not run it, or its effect would reach beyond the \
                            requests of the rules"
        ));
    }
    check_rule(name, arguments)?;
    if CHANGES.iter().any(is) {
        return Ok(LineEffect::Change);
    }
    let enforces = text.to_ascii_lowercase().replace(' ', "").contains("ctl:ruleengine=on");
    Ok(LineEffect::Keep { enforces })
}

/// Returns the file of the agent in place of one of ingress-nginx's image.
fn include(arguments: &[String]) -> Result<LineEffect, String> {
    let path = arguments.first().map(String::as_str).unwrap_or_default();
    let in_image = path.strip_prefix(OF_NGINX).unwrap_or_default();
    match in_image {
        "modsecurity/modsecurity.conf" => return Ok(LineEffect::Recommended),
        "owasp-modsecurity-crs/nginx-modsecurity.conf" => return Ok(LineEffect::CoreRules),
        "owasp-modsecurity-crs/crs-setup.conf" => {
            return Ok(LineEffect::Include("@crs-setup.conf.example".to_owned()));
        }
        _ => {}
    }
    let file = in_image.strip_prefix("owasp-modsecurity-crs/rules/").unwrap_or_default();
    // The two files for own rules are empty.
    if ["REQUEST-900-EXCLUSION-RULES-BEFORE-CRS.conf", "RESPONSE-999-EXCLUSION-RULES-AFTER-CRS.conf"]
        .contains(&file)
    {
        return Ok(LineEffect::Ignore(format!("Include {file}: it contains no rules")));
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.*".contains(c);
    match file.ends_with(".conf") && file.chars().all(is_name) && !file.contains("..") {
        true => Ok(LineEffect::Include(format!("@owasp_crs/{file}"))),
        false => Err(format!(
            "Include {path:?} is not available: only the files of ModSecurity and of the core rule set in \
             ingress-nginx's image are"
        )),
    }
}

/// Refuses operators and actions that reach beyond the requests of the rules.
fn check_rule(name: &str, arguments: &[String]) -> Result<(), String> {
    let (operator, actions) = match &*name.to_ascii_lowercase() {
        "secrule" => (arguments.get(1), arguments.get(2)),
        "secaction" | "secdefaultaction" => (None, arguments.first()),
        "secruleupdateactionbyid" => (None, arguments.get(1)),
        _ => (None, None),
    };
    if let Some(operator) = operator {
        let operator = operator.trim_start_matches(['!', ' ']);
        let operator = operator.strip_prefix('@').unwrap_or_default();
        let end = operator.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(operator.len());
        if REFUSED_OPERATORS.contains(&&*operator[..end].to_ascii_lowercase()) {
            return Err(format!(
                "{name} has the operator @{}, which reads files or queries other machines",
                &operator[..end]
            ));
        }
    }
    for action in actions.map(|actions| split(actions)).unwrap_or_default() {
        let action = action.trim().split([':', '=']).next().unwrap_or_default().trim();
        if REFUSED_ACTIONS.contains(&&*action.to_ascii_lowercase()) {
            return Err(format!("{name} has the action {action}, which reaches beyond the request"));
        }
    }
    Ok(())
}

/// Splits a directive into words; double quotes hold one together, and a backslash keeps a quote in
/// it.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut chars = text.chars().peekable();
    while chars.next_if(|c| c.is_whitespace()).is_some() || chars.peek().is_some() {
        let Some(first) = chars.next_if(|c| !c.is_whitespace()) else { continue };
        let is_quoted = first == '"';
        let mut word = if is_quoted { String::new() } else { String::from(first) };
        while let Some(c) = chars.next() {
            match c {
                '\\' if is_quoted && chars.peek() == Some(&'"') => word.extend(chars.next()),
                '"' if is_quoted => break,
                c if !is_quoted && c.is_whitespace() => break,
                c => word.push(c),
            }
        }
        words.push(word);
    }
    words
}

/// Splits actions at commas outside of single quotes.
fn split(actions: &str) -> Vec<&str> {
    let mut is_quoted = false;
    actions
        .split(|c| {
            is_quoted ^= c == '\'';
            c == ',' && !is_quoted
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_about_requests_are_run() {
        for text in [
            "SecRule ARGS \"@rx a b\" \"id:1,phase:2,deny,status:403,msg:'exec: me, @rbl'\"",
            "SecRule REQUEST_HEADERS:User-Agent \"exec\" \"id:2,deny\"",
            "secaction \"id:900110,phase:1,pass,setvar:tx.inbound_anomaly_score_threshold=10\"",
            "SecRule REMOTE_ADDR \"!@ipMatch 10.0.0.0/8\" \"id:3,deny\"",
            "SecAuditLog /dev/stdout",
        ] {
            assert_eq!(line(text), Ok(LineEffect::Keep { enforces: false }), "{text}");
        }
        let on = "SecRule ARGS:a \"@streq b\" \"id:1,phase:1,pass,ctl:ruleEngine=On\"";
        assert_eq!(line(on), Ok(LineEffect::Keep { enforces: true }));
        assert_eq!(line("SecRuleRemoveById 942100"), Ok(LineEffect::Change));
    }

    #[test]
    fn what_reaches_beyond_the_requests_is_refused_by_name() {
        for (text, name) in [
            ("SecRuleScript /tmp/x.lua", "SecRuleScript"),
            ("SecRemoteRules key https://rules.example", "SecRemoteRules"),
            ("SecIgnoreRuleCompilationErrors On", "SecIgnoreRuleCompilationErrors"),
            ("SecNothing x", "SecNothing"),
            ("Include /etc/passwd", "Include"),
            ("Include @owasp_crs/../../etc/passwd", "Include"),
            ("Include /etc/nginx/owasp-modsecurity-crs/rules/../../../passwd.conf", "Include"),
            ("SecAction \"id:1,phase:1,exec:/bin/sh\"", "exec"),
            ("SecRule ARGS x \"id:1,EXEC:/bin/sh\"", "EXEC"),
            ("SecRule ARGS \"x\" \"id:1,msg:'a',setenv:LD_PRELOAD=x\"", "setenv"),
            ("SecRule FILES_TMPNAMES \"@inspectFile /bin/sh\" \"id:1,deny\"", "@inspectFile"),
            ("SecRule ARGS \"! @pmFromFile /etc/shadow\" \"id:1,deny\"", "@pmFromFile"),
            ("SecRule ARGS @pmf \"id:1,deny\"", "@pmf"),
            ("SecRule REMOTE_ADDR \"@rbl sbl.example\" \"id:1,deny\"", "@rbl"),
            ("SecDefaultAction \"phase:1,exec:/bin/sh\"", "exec"),
            ("SecRuleUpdateActionById 1 \"exec:/bin/sh\"", "exec"),
            ("SecRuleEngine Maybe", "SecRuleEngine"),
        ] {
            let reason = line(text).unwrap_err();
            assert!(reason.contains(name), "{text}: {reason}");
        }
    }

    #[test]
    fn files_of_the_images_are_those_of_the_agent() {
        let crs = "Include /etc/nginx/owasp-modsecurity-crs/";
        for (text, effect) in [
            ("Include /etc/nginx/modsecurity/modsecurity.conf".to_owned(), LineEffect::Recommended),
            ("include \"/etc/nginx/modsecurity/modsecurity.conf\"".to_owned(), LineEffect::Recommended),
            (format!("{crs}nginx-modsecurity.conf"), LineEffect::CoreRules),
            (format!("{crs}crs-setup.conf"), LineEffect::Include("@crs-setup.conf.example".to_owned())),
            (format!("{crs}rules/*.conf"), LineEffect::Include("@owasp_crs/*.conf".to_owned())),
        ] {
            assert_eq!(line(&text), Ok(effect), "{text}");
        }
    }

    #[test]
    fn files_of_logs_and_data_have_no_effect() {
        for text in ["SecDebugLog /tmp/modsec_debug.log", "SecAuditLog /var/log/x", "secuploaddir /etc"] {
            assert!(matches!(line(text), Ok(LineEffect::Ignore(_))), "{text}");
        }
    }
}
