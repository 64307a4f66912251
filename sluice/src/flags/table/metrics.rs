//! Request metrics.

use super::super::value::Destination::{Nowhere, To};
use super::super::value::Value::{Bool, Buckets, Float, Int, List};
use super::{Flag, flag};

pub(super) const FLAGS: &[Flag] = &[
    flag("enable-metrics", Bool(To(|f| &mut f.gateway.enable_metrics)), "false", "Collect request metrics"),
    flag("metrics-per-host", Bool(To(|f| &mut f.gateway.metrics_per_host)), "true", "Fill the label host"),
    flag(
        "metrics-per-undefined-host",
        Bool(To(|f| &mut f.gateway.metrics_per_undefined_host)),
        "false",
        "Also for up to 200 hosts that no Ingress names; needs --metrics-per-host",
    ),
    flag(
        "report-status-classes",
        Bool(To(|f| &mut f.gateway.report_status_classes)),
        "false",
        "Report 2xx, 3xx, ... instead of status codes",
    ),
    flag(
        "exclude-socket-metrics",
        List(To(|f| &mut f.gateway.exclude_socket_metrics)),
        "",
        "Request metrics that are not exported, by name",
    ),
    flag(
        "monitor-max-batch-size",
        Int(Nowhere("requests are counted individually, not in batches; remove this flag")),
        "10000",
        "Requests per batch of metrics",
    ),
    flag(
        "time-buckets",
        Buckets(To(|f| &mut f.gateway.time_buckets)),
        "0.005,0.01,0.025,0.05,0.1,0.25,0.5,1,2.5,5,10",
        "Buckets of the histograms of seconds",
    ),
    flag(
        "length-buckets",
        Buckets(To(|f| &mut f.gateway.length_buckets)),
        "10,20,30,40,50,60,70,80,90,100",
        "Buckets of the histograms of lengths",
    ),
    flag(
        "size-buckets",
        Buckets(To(|f| &mut f.gateway.size_buckets)),
        "10,100,1000,10000,100000,1000000,10000000",
        "Buckets of the histograms of sizes",
    ),
    flag(
        "bucket-factor",
        Float(To(|f| &mut f.gateway.bucket_factor)),
        "0",
        "Growth of the buckets of native histograms of seconds, such as 1.1, at least 1.09; off up to 1",
    ),
    flag(
        "max-buckets",
        Int(To(|f| &mut f.gateway.max_buckets)),
        "100",
        "Buckets that a native histogram uses at most, before each two are merged; 0 for no limit",
    ),
];
