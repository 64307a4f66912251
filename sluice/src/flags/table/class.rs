//! Which Ingress objects are served.

use super::super::value::Destination::To;
use super::super::value::Value::{Bool, OptionalText, Selector, Text};
use super::{Flag, flag};

pub(super) const FLAGS: &[Flag] = &[
    flag(
        "controller-class",
        Text(To(|f| &mut f.controller.controller_class)),
        "k8s.io/ingress-nginx",
        "Serve the IngressClasses whose spec.controller is this",
    ),
    flag(
        "ingress-class",
        Text(To(|f| &mut f.controller.ingress_class)),
        "nginx",
        "Serve Ingresses whose annotation kubernetes.io/ingress.class is this",
    ),
    flag(
        "ingress-class-by-name",
        Bool(To(|f| &mut f.controller.ingress_class_by_name)),
        "false",
        "Also serve the IngressClass that has the name given by --ingress-class",
    ),
    flag(
        "watch-ingress-without-class",
        Bool(To(|f| &mut f.controller.watch_ingress_without_class)),
        "false",
        "Also serve Ingresses with neither class field nor annotation",
    ),
    flag(
        "watch-namespace",
        OptionalText(To(|f| &mut f.controller.watch_namespace)),
        "",
        "Serve this namespace only",
    ),
    flag(
        "watch-namespace-selector",
        Selector(To(|f| &mut f.controller.watch_namespace_selector)),
        "",
        "Serve namespaces whose labels match this selector only",
    ),
    flag(
        "disable-catch-all",
        Bool(To(|f| &mut f.controller.disable_catch_all)),
        "false",
        "Ignore Ingresses that have a default backend",
    ),
    flag(
        "annotations-prefix",
        Text(To(|f| &mut f.controller.annotations_prefix)),
        "nginx.ingress.kubernetes.io",
        "Prefix of the annotations that are read",
    ),
];
