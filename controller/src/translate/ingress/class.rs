//! Selection of the Ingresses to serve, by class and namespace.

use sluice_config::{Code, NamespacedName, ObjectRef, Problem};

use crate::options::Options;
use crate::problem::{error, warning};
use crate::store::{ClassAccess, Ingress};
use crate::translate::view::View;

/// Whether this controller serves an Ingress.
pub(crate) enum Selection {
    /// It does, with a problem if its class was deleted.
    Ours(Option<Problem>),
    /// It belongs to another controller or to none, with a problem if that looks like a mistake.
    NotOurs(Option<Problem>),
    /// Its namespace is not watched.
    OutOfScope,
    /// Its IngressClass decides, and IngressClasses cannot be read.
    Undecided,
}

/// Decides by namespace, then by `spec.ingressClassName`, then by the annotation, then by default.
/// Without the right to read IngressClasses the field is inconclusive, unless a flag gives its
/// name; while the right may still be granted, no later criterion applies instead of the field.
pub(crate) fn select(view: &View<'_>, ingress: &Ingress) -> Selection {
    if !in_scope(view, ingress) {
        return Selection::OutOfScope;
    }
    let options = view.options;
    let mut undecided = false;
    if let Some(name) = &ingress.class_name {
        let access = view.class_access();
        if access == ClassAccess::Listed || by_name(options, name) {
            return by_class_name(view, ingress, name);
        }
        // With `--ingress-class-by-name` the name decides: not served.
        undecided = !options.ingress_class_by_name;
        if undecided && access == ClassAccess::Refused {
            return Selection::Undecided;
        }
    }
    if let Some(annotation) = &ingress.class_annotation {
        return if **annotation == *options.ingress_class {
            Selection::Ours(None)
        } else {
            Selection::NotOurs(None)
        };
    }
    if options.apply_default_class
        && let Some(class) = view.default_class()
    {
        return by_class_name(view, ingress, &class.name.name);
    }
    match options.watch_ingress_without_class {
        true => Selection::Ours(None),
        false if undecided => Selection::Undecided,
        false => Selection::NotOurs(None),
    }
}

/// Returns the problem of an Ingress whose class cannot be determined.
pub(crate) fn undecided(ingress: &Ingress) -> Problem {
    let name = ingress.class_name.as_deref().unwrap_or_default();
    warning(
        Code::ClassUndecided,
        &ObjectRef { kind: "Ingress".into(), name: ingress.name.clone() },
        "spec.ingressClassName",
        format!(
            "without the right to list IngressClasses, the controller of class {name:?} is unknown; this Ingress is \
             not served"
        ),
        "give that right, take the name with --ingress-class-by-name and --ingress-class, or use the annotation \
         kubernetes.io/ingress.class",
    )
}

fn in_scope(view: &View<'_>, ingress: &Ingress) -> bool {
    if let Some(namespace) = &view.options.watch_namespace
        && *ingress.name.namespace != **namespace
    {
        return false;
    }
    let Some(selector) = &view.options.watch_namespace_selector else { return true };
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
        return Selection::Ours(None);
    }
    let class_name = NamespacedName::new("", name);
    match view.class(&class_name) {
        Some(class) if *class.controller == *options.controller_class => Selection::Ours(None),
        Some(_) => Selection::NotOurs(None),
        None if view.is_deleted_class(&class_name) => Selection::Ours(Some(error(
            Code::ClassNotFound,
            &ObjectRef { kind: "Ingress".into(), name: ingress.name.clone() },
            "spec.ingressClassName",
            format!(
                "IngressClass {name:?} was deleted; this Ingress is served until this process ends, and a new one does \
                 not serve it"
            ),
            format!(
                "create the IngressClass again with spec.controller {:?}, or delete the Ingress",
                options.controller_class
            ),
        ))),
        None => Selection::NotOurs(Some(warning(
            Code::ClassNotFound,
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
