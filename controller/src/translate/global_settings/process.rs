//! Keys about listeners and the process.

use super::Key;
use crate::translate::setting::{ReferenceTreatment, Unreadable};
use crate::translate::value;

pub(super) fn settings() -> Vec<Key> {
    vec![
        Key::served(
            "bind-address",
            value::addresses(),
            "",
            "Addresses to listen on; all by default. A list with addresses of one family only closes the other, with a \
             warning; ingress-nginx listens on all addresses of the other.",
            |settings, value| settings.bind_addresses = value,
        )
        .unreadable(Unreadable::SkipEntries, ReferenceTreatment::SkipEntries, ""),
        Key::served(
            "disable-ipv6",
            value::bool(),
            "false",
            "Do not listen on IPv6 addresses.",
            |settings, value| settings.disable_ipv6 = value,
        ),
        Key::served(
            "disable-ipv6-dns",
            value::bool(),
            "false",
            "Do not use IPv6 addresses of names outside of the cluster.",
            |settings, value| settings.ipv4_names = value,
        ),
        Key::served(
            "worker-processes",
            value::workers(),
            "auto",
            "Number of workers that serve new connections, at most one for each CPU that the container may \
             use, which is auto. Open connections stay where they are.",
            |settings, value| settings.global.workers = value,
        )
        .unchecked_by_reference(),
        Key::no_effect(
            "worker-cpu-affinity",
            value::text(),
            "",
            "Sluice does not run nginx",
            "CPUs of each worker.",
        )
        .unchecked_by_reference(),
        Key::no_effect(
            "reuse-port",
            value::bool(),
            "true",
            "one worker accepts from each socket and spreads the connections evenly",
            "A listening socket per worker.",
        ),
        Key::no_effect(
            "enable-multi-accept",
            value::bool(),
            "true",
            "Sluice does not run nginx",
            "Tuning of nginx itself.",
        ),
        Key::no_effect(
            "enable-aio-write",
            value::bool(),
            "true",
            "Sluice does not run nginx",
            "Tuning of nginx itself.",
        ),
        Key::no_effect(
            "enable-serial-reloads",
            value::bool(),
            "false",
            "Sluice does not run nginx",
            "Tuning of nginx itself.",
        ),
        Key::no_effect(
            "map-hash-bucket-size",
            value::count(),
            "64",
            "Sluice does not run nginx",
            "Tuning of nginx itself.",
        ),
        Key::no_effect(
            "server-name-hash-max-size",
            value::count(),
            "1024",
            "Sluice does not run nginx",
            "Tuning of nginx itself.",
        ),
        Key::no_effect(
            "server-name-hash-bucket-size",
            value::count(),
            "",
            "Sluice does not run nginx",
            "Tuning of nginx itself.",
        ),
        Key::no_effect(
            "variables-hash-bucket-size",
            value::count(),
            "256",
            "Sluice does not run nginx",
            "Tuning of nginx itself.",
        ),
        Key::no_effect(
            "variables-hash-max-size",
            value::count(),
            "2048",
            "Sluice does not run nginx",
            "Tuning of nginx itself.",
        ),
        Key::no_effect(
            "lua-shared-dicts",
            value::text(),
            "",
            "Sluice does not run nginx",
            "Tuning of nginx itself.",
        ),
    ]
}
