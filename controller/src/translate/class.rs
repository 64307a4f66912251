//! Which Ingresses are ours: class and namespace.

use sluice_config::{NamespacedName, ObjectRef, Problem};

use super::selector::Selector;
use super::view::View;
use crate::options::Options;
use crate::problem::warning;
use crate::store::Ingress;

/// Whether an Ingress is ours.
pub(crate) enum Selection {
    /// It is.
    Ours,
    /// It belongs to another controller or to none. A problem tells when that looks like a mistake.
    NotOurs(Option<Problem>),
}

/// Decides by namespace, then by `spec.ingressClassName`, then by the annotation, then by default. Without the
/// right to read IngressClasses the field says nothing, but for a name that a flag gives. `selector` is
/// `--watch-namespace-selector`.
pub(crate) fn select(view: &View<'_>, ingress: &Ingress, selector: Option<&Selector>) -> Selection {
    if !in_scope(view, ingress, selector) {
        return Selection::NotOurs(None);
    }
    let options = view.options;
    if let Some(name) = &ingress.class_name
        && (view.classes_readable() || by_name(options, name))
    {
        return by_class_name(view, ingress, name);
    }
    if let Some(annotation) = &ingress.class_annotation {
        return if **annotation == *options.ingress_class {
            Selection::Ours
        } else {
            Selection::NotOurs(None)
        };
    }
    if options.apply_default_class
        && let Some(class) = view.default_class()
    {
        return by_class_name(view, ingress, &class.name.name);
    }
    if options.watch_ingress_without_class { Selection::Ours } else { Selection::NotOurs(None) }
}

fn in_scope(view: &View<'_>, ingress: &Ingress, selector: Option<&Selector>) -> bool {
    if let Some(namespace) = &view.options.watch_namespace
        && *ingress.name.namespace != **namespace
    {
        return false;
    }
    let Some(selector) = selector else { return true };
    let name = NamespacedName { namespace: "".into(), name: ingress.name.namespace.clone() };
    view.namespace(&name).is_some_and(|namespace| selector.matches(&namespace.labels))
}

/// `--ingress-class-by-name`.
fn by_name(options: &Options, name: &str) -> bool {
    options.ingress_class_by_name && *name == *options.ingress_class
}

fn by_class_name(view: &View<'_>, ingress: &Ingress, name: &str) -> Selection {
    let options = view.options;
    if by_name(options, name) {
        return Selection::Ours;
    }
    match view.class(&NamespacedName::new("", name)) {
        Some(class) if *class.controller == *options.controller_class => Selection::Ours,
        Some(_) => Selection::NotOurs(None),
        None => Selection::NotOurs(Some(warning(
            &ObjectRef { kind: "Ingress".into(), name: ingress.name.clone() },
            "spec.ingressClassName",
            format!("IngressClass {name:?} does not exist, so no controller serves this Ingress"),
            format!(
                "create the IngressClass with spec.controller {:?}, or name another class",
                options.controller_class
            ),
        ))),
    }
}
