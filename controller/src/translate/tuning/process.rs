//! Where the program listens, and what it runs on.

use super::Settings;
use crate::translate::setting::{NotYet, Setting};
use crate::translate::value::{self, Value};

pub(super) static SETTINGS: &[Setting<Settings>] = &[
    Setting::served(
        "bind-address",
        Value::Addresses,
        "",
        "Addresses to listen on; all by default.",
        |text, settings: &mut Settings| {
            settings.bind_addresses = value::addresses(text)?;
            Ok(())
        },
    ),
    Setting::served(
        "disable-ipv6",
        Value::Bool,
        "false",
        "Listen on no address of version 6.",
        |text, settings: &mut Settings| {
            settings.disable_ipv6 = value::bool(text)?;
            Ok(())
        },
    ),
    Setting::not_yet("disable-ipv6-dns", Value::Bool, "false", NotYet::Harmless, "No AAAA lookups."),
    Setting::not_yet("worker-processes", Value::Text, "", NotYet::Harmless, "Number of workers."),
    Setting::no_effect(
        "worker-cpu-affinity",
        Value::Text,
        "",
        "there is no nginx underneath",
        "CPUs of each worker.",
    ),
    Setting::no_effect(
        "reuse-port",
        Value::Bool,
        "true",
        "all workers accept from one socket",
        "A listening socket per worker.",
    ),
    Setting::no_effect(
        "enable-multi-accept",
        Value::Bool,
        "true",
        "there is no nginx underneath",
        "Tuning of nginx itself.",
    ),
    Setting::no_effect(
        "enable-aio-write",
        Value::Bool,
        "true",
        "there is no nginx underneath",
        "Tuning of nginx itself.",
    ),
    Setting::no_effect(
        "enable-serial-reloads",
        Value::Bool,
        "false",
        "there is no nginx underneath",
        "Tuning of nginx itself.",
    ),
    Setting::no_effect(
        "map-hash-bucket-size",
        Value::Count,
        "64",
        "there is no nginx underneath",
        "Tuning of nginx itself.",
    ),
    Setting::no_effect(
        "server-name-hash-max-size",
        Value::Count,
        "1024",
        "there is no nginx underneath",
        "Tuning of nginx itself.",
    ),
    Setting::no_effect(
        "server-name-hash-bucket-size",
        Value::Count,
        "",
        "there is no nginx underneath",
        "Tuning of nginx itself.",
    ),
    Setting::no_effect(
        "variables-hash-bucket-size",
        Value::Count,
        "256",
        "there is no nginx underneath",
        "Tuning of nginx itself.",
    ),
    Setting::no_effect(
        "variables-hash-max-size",
        Value::Count,
        "2048",
        "there is no nginx underneath",
        "Tuning of nginx itself.",
    ),
    Setting::no_effect(
        "lua-shared-dicts",
        Value::Text,
        "",
        "there is no nginx underneath",
        "Tuning of nginx itself.",
    ),
];
