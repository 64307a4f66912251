//! Sluice's own flags, and flags about the life cycle of the process.

use super::super::value::Destination::To;
use super::super::value::Value::{Address, Bool, Duration, Engine, File, Seconds};
use super::{Flag, flag};

pub(super) const FLAGS: &[Flag] = &[
    flag(
        "manifests",
        File(To(|f| &mut f.manifests)),
        "",
        "Folder of Kubernetes manifests that is served and watched",
    ),
    flag(
        "snapshot-file",
        File(To(|f| &mut f.cluster.snapshot_file)),
        "",
        "File for the last configuration, including private keys; served if the API is unreachable at the \
         start",
    ),
    flag(
        "snapshot-max-age",
        Duration(To(|f| &mut f.cluster.snapshot_max_age)),
        "24h",
        "Maximum time since the API last confirmed the content of --snapshot-file, because Pod addresses \
         are reused; 0 for no limit",
    ),
    flag(
        "admin-address",
        Address(To(|f| &mut f.gateway.admin_address)),
        "127.0.0.1:10246",
        "Address that serves routes, backends, certificates and problems as JSON",
    ),
    flag(
        "driver",
        Engine(To(|f| &mut f.gateway.engine)),
        "auto",
        "Engine that forwards requests, for comparisons: auto and direct are Sluice's own engine, proxy is \
         Pingora's HttpProxy",
    ),
    flag(
        "resolv-conf",
        File(To(|f| &mut f.resolv_conf)),
        "",
        "File in the format of resolv.conf(5) for names outside of the cluster; a name server may have a \
         port ([127.0.0.1]:5353); empty for /etc/resolv.conf",
    ),
    flag(
        "body-temp-path",
        File(To(|f| &mut f.gateway.body_temp_path)),
        "",
        "Folder for request bodies that are too large for memory, in unnamed files that no other process \
         can open; empty for the system's folder for temporary files",
    ),
    flag(
        "cache-path",
        File(To(|f| &mut f.gateway.cache_path)),
        "",
        "Folder for bodies of stored responses that memory has no room for; it is emptied at the start and \
         must hold nothing else; empty for none",
    ),
    flag(
        "shutdown-grace-period",
        Seconds(To(|f| &mut f.gateway.shutdown_grace_period)),
        "0",
        "Time for which new connections are accepted after SIGTERM, while /healthz fails",
    ),
    // The default of ingress-nginx is 10 s, which has no benefit; Sluice exits after its last
    // request.
    flag(
        "post-shutdown-grace-period",
        Seconds(To(|f| &mut f.gateway.post_shutdown_grace_period)),
        "0",
        "Time for which the process stays after the last request has ended",
    ),
    flag("version", Bool(To(|f| &mut f.version)), "false", "Print the version and end"),
];
