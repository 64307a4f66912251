//! Sluice's own flags, and those about the life of the process.

use super::super::value::Place::To;
use super::super::value::Value::{Address, Bool, Driver, Duration, File, Seconds};
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
        "File the last configuration is kept in, private keys included, and served from when the API is away at the start",
    ),
    flag(
        "snapshot-max-age",
        Duration(To(|f| &mut f.cluster.snapshot_max_age)),
        "24h",
        "How long ago the API may last have confirmed what is in --snapshot-file for that to be served: the addresses \
         of Pods are given to others; 0 for any time",
    ),
    flag(
        "admin-address",
        Address(To(|f| &mut f.gateway.admin_address)),
        "127.0.0.1:10246",
        "Where routes, backends, certificates and problems are answered as JSON",
    ),
    flag(
        "driver",
        Driver(To(|f| &mut f.gateway.driver)),
        "auto",
        "What carries requests to endpoints, for comparisons: auto and direct are Sluice's own engine, proxy is Pingora's \
         HttpProxy",
    ),
    flag(
        "resolv-conf",
        File(To(|f| &mut f.resolv_conf)),
        "",
        "File in the format of resolv.conf(5) that says how names outside of the cluster are looked up, where a name server \
         may have a port ([127.0.0.1]:5353); empty for /etc/resolv.conf",
    ),
    flag(
        "body-temp-path",
        File(To(|f| &mut f.gateway.body_temp_path)),
        "",
        "Folder for request bodies that are too large for memory, in files without a name that nobody else can read; \
         empty for the system's folder for temporary files",
    ),
    flag(
        "shutdown-grace-period",
        Seconds(To(|f| &mut f.gateway.shutdown_grace_period)),
        "0",
        "How long new connections are still taken after SIGTERM, with /healthz failing",
    ),
    // The default of ingress-nginx is 10 s, which helps nobody; Sluice ends with its last request.
    flag(
        "post-shutdown-grace-period",
        Seconds(To(|f| &mut f.gateway.post_shutdown_grace_period)),
        "0",
        "How long the process stays after the last request has ended",
    ),
    flag("version", Bool(To(|f| &mut f.version)), "false", "Print the version and end"),
];
