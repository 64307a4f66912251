//! Where the program listens, and what it runs on.

use super::Key;
use crate::translate::setting::{NotYet, Reference, Unreadable};
use crate::translate::value;

pub(super) fn settings() -> Vec<Key> {
    vec![
        Key::served(
            "bind-address",
            value::addresses(),
            "",
            "Addresses to listen on; all by default.",
            |settings, value| settings.bind_addresses = value,
        )
        .unreadable(Unreadable::SkipEntries, Reference::SkipEntries, ""),
        Key::served(
            "disable-ipv6",
            value::bool(),
            "false",
            "Listen on no address of version 6.",
            |settings, value| settings.disable_ipv6 = value,
        ),
        Key::served(
            "disable-ipv6-dns",
            value::bool(),
            "false",
            "Use no address of version 6 that a name outside of the cluster has.",
            |settings, value| settings.ipv4_names = value,
        ),
        Key::not_yet("worker-processes", value::text(), "", NotYet::Harmless, "Number of workers.")
            .unchecked_by_reference(),
        Key::no_effect(
            "worker-cpu-affinity",
            value::text(),
            "",
            "there is no nginx underneath",
            "CPUs of each worker.",
        )
        .unchecked_by_reference(),
        Key::no_effect(
            "reuse-port",
            value::bool(),
            "true",
            "all workers accept from one socket",
            "A listening socket per worker.",
        ),
        Key::no_effect(
            "enable-multi-accept",
            value::bool(),
            "true",
            "there is no nginx underneath",
            "Tuning of nginx itself.",
        ),
        Key::no_effect(
            "enable-aio-write",
            value::bool(),
            "true",
            "there is no nginx underneath",
            "Tuning of nginx itself.",
        ),
        Key::no_effect(
            "enable-serial-reloads",
            value::bool(),
            "false",
            "there is no nginx underneath",
            "Tuning of nginx itself.",
        ),
        Key::no_effect(
            "map-hash-bucket-size",
            value::count(),
            "64",
            "there is no nginx underneath",
            "Tuning of nginx itself.",
        ),
        Key::no_effect(
            "server-name-hash-max-size",
            value::count(),
            "1024",
            "there is no nginx underneath",
            "Tuning of nginx itself.",
        ),
        Key::no_effect(
            "server-name-hash-bucket-size",
            value::count(),
            "",
            "there is no nginx underneath",
            "Tuning of nginx itself.",
        ),
        Key::no_effect(
            "variables-hash-bucket-size",
            value::count(),
            "256",
            "there is no nginx underneath",
            "Tuning of nginx itself.",
        ),
        Key::no_effect(
            "variables-hash-max-size",
            value::count(),
            "2048",
            "there is no nginx underneath",
            "Tuning of nginx itself.",
        ),
        Key::no_effect(
            "lua-shared-dicts",
            value::text(),
            "",
            "there is no nginx underneath",
            "Tuning of nginx itself.",
        ),
    ]
}
