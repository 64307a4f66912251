//! What holds for the rules of an Ingress on a host: its settings, with what they refer to.

use std::sync::Arc;

use sluice_config::{
    Action, Authorisation, Backend, Code, Deny, HostPattern, NamespacedName, ObjectRef, Policies, PoolKey,
    ResourceKey, ServiceRef,
};

use super::endpoint_tls::InheritedTls;
use super::{Builder, MISNAMED, forward, object_ref, paths};
use crate::problem::{because, error, warning};
use crate::translate::ingress::IngressModel;
use crate::translate::ingress::annotations::{self, REJECTED, UNABLE};
use crate::translate::routes::backend;

const REMEDY_FOR_GROUPS: &str =
    "put the group into the path, such as /app(/|$)(.*) for $2, or take it out of the target";

impl Builder<'_, '_> {
    /// The policies of a path that is not closed otherwise. One that cannot be read, or not be rewritten, is.
    pub(super) fn open_path(
        &mut self,
        object: &ObjectRef,
        field: &str,
        model: &IngressModel,
        path: &str,
        asks: bool,
    ) -> Arc<Policies> {
        let field = format!("{field}.path");
        if let Some(reason) = asks.then(|| paths::unreadable(path, self.view.expressions())).flatten() {
            let reason = format!("{path:?} is a regular expression that cannot be read ({reason})");
            let message = match model.closed() {
                None => format!("{reason}; what it can mean answers {UNABLE} until it is corrected"),
                Some(_) => format!("{reason}; what it can mean stays closed until it is corrected"),
            };
            let remedy = "write it without look-behind and back-references, with look-ahead only behind text of one length, or as several paths";
            self.problems.push(error(Code::ExpressionInvalid, object, field.clone(), message, remedy));
            return model.policies_of_closed(&field, &reason, UNABLE);
        }
        match model.rewrite(path, self.view.expressions()) {
            Ok(None) => model.policies(path),
            Ok(Some((rewrite, lacking))) => {
                if let Some(number) = lacking {
                    self.problems.push(warning(
                        Code::RewriteGroupMissing,
                        object,
                        field,
                        format!(
                            "rewrite-target or x-forwarded-prefix names ${number}, and the path {path:?} has no such \
                             group: nothing stands in its place"
                        ),
                        REMEDY_FOR_GROUPS,
                    ));
                }
                Arc::new(Policies { rewrite: Some(rewrite), ..(*model.policies(path)).clone() })
            }
            Err(fault) => {
                let message = match model.closed() {
                    None => format!("{fault}; it answers {UNABLE} until one of the two is corrected"),
                    Some(_) => format!("{fault}; it stays closed until one of the two is corrected"),
                };
                self.problems.push(error(
                    Code::RewriteInvalid,
                    object,
                    field.clone(),
                    message,
                    REMEDY_FOR_GROUPS,
                ));
                model.policies_of_closed(&field, &fault.to_string(), UNABLE)
            }
        }
    }

    /// The policies of a rule of an Ingress. Where a Secret or ConfigMap that they need cannot be used, the rule is
    /// closed until it can. For one that is closed already they are looked at too, so that all is told at once.
    pub(super) fn guarded(
        &mut self,
        model: &IngressModel,
        policies: Arc<Policies>,
        action: &Action,
    ) -> Arc<Policies> {
        if policies.deny.is_none() {
            return self.resolved(model, policies, action);
        }
        // What is closed uses nothing.
        let uses = self.uses.clone();
        self.resolved(model, policies.clone(), action);
        self.uses = uses;
        policies
    }

    fn resolved(
        &mut self,
        model: &IngressModel,
        mut policies: Arc<Policies>,
        action: &Action,
    ) -> Arc<Policies> {
        let object = object_ref(model);
        let mut deny = None;
        for (key, field) in model.needs() {
            let digest = policies.digest_auth.as_ref().filter(|digest| digest.credentials == *key);
            let resource = self.view.resource(key);
            let fault = resource.fault(key, self.view.options);
            let fault = fault.or_else(|| resource.lacks_realm(key, &digest?.realm));
            let Some(fault) = fault else {
                self.uses.resource(key);
                continue;
            };
            let reason = because(&object, field, &fault.reason);
            deny.get_or_insert(Deny { status: 503, reason });
            let message = format!("{}; {}", fault.reason, fate(model));
            let problem = error(fault.code, &object, &**field, message, fault.remedy);
            if !self.problems.contains(&problem) {
                self.problems.push(problem);
            }
        }
        if let Some(InheritedTls { tls, secret, owner }) = self.inherited_tls(model) {
            if let Some(key) = secret {
                let fault = self.inherited_secret(model, &key, &owner, self.speaks_tls(action, &policies));
                deny = deny.or(fault);
            }
            policies = Arc::new(Policies { upstream_tls: Some(tls), ..(*policies).clone() });
        }
        if let Some(tls) = self.named_tls(model, &policies, action) {
            policies = Arc::new(Policies { upstream_tls: Some(tls), ..(*policies).clone() });
        }
        let global_auth = match policies.authorisation {
            Authorisation::Global => self.view.auth_of_hosts(),
            _ => None,
        };
        let has_own =
            model.external_auth.is_some() || model.error_backend.is_some() || model.mirror.is_some();
        if !has_own && global_auth.is_none() {
            return match deny {
                Some(deny) => Arc::new(Policies { deny: Some(deny), ..(*policies).clone() }),
                None => policies,
            };
        }
        let mut policies = Policies { deny, ..(*policies).clone() };
        let host = match self.served {
            HostPattern::Exact(name) => Some(name.as_str()),
            _ => None,
        };
        if let Some(auth) = model.external_auth.as_deref().or(global_auth) {
            match auth.policy(self.view, &mut self.uses, host) {
                Some(auth) => policies.authorisation = Authorisation::Own(Arc::new(auth)),
                None => policies.deny = policies.deny.or(Some(self.without_host(model, self.served))),
            }
        }
        if let Some(mirror) = &model.mirror {
            policies.mirror = mirror.policy(self.view, &mut self.uses, host).map(Arc::new);
            if policies.mirror.is_none() {
                self.without_mirror(model, self.served);
            }
        }
        policies.error_pages.backend = self.error_backend(model);
        Arc::new(policies)
    }

    /// Uses the Secret that another Ingress names for the whole host. One that cannot be used closes what goes to
    /// endpoints by TLS.
    fn inherited_secret(
        &mut self,
        model: &IngressModel,
        key: &ResourceKey,
        owner: &NamespacedName,
        speaks_tls: bool,
    ) -> Option<Deny> {
        let Some(fault) = self.view.resource(key).fault(key, self.view.options) else {
            self.uses.resource(key);
            return None;
        };
        if !speaks_tls {
            return None;
        }
        let object = object_ref(model);
        let field = annotations::field(&self.view.options.annotations_prefix, "proxy-ssl-secret");
        let reason = format!("{}, and Ingress {owner} names it for host {}", fault.reason, self.served);
        let message = format!("{reason}; {}", fate(model));
        self.add(error(fault.code, &object, field.as_str(), message, fault.remedy));
        Some(Deny { status: 503, reason: because(&object, &field, &reason) })
    }

    /// A service that is asked where the request was meant to go has no address on a host that stands for many.
    fn without_host(&mut self, model: &IngressModel, pattern: &HostPattern) -> Deny {
        let object = object_ref(model);
        let field = match model.external_auth {
            Some(_) => annotations::field(&self.view.options.annotations_prefix, "auth-url"),
            None => "global-auth-url".to_owned(),
        };
        let reason = format!("has $host as its host, which is not one name on host {pattern}");
        self.add(error(
            Code::AnnotationInvalid,
            &object,
            field.clone(),
            format!("{reason}; on that host {}", fate(model)),
            "name the host of the authorisation service",
        ));
        Deny { status: 503, reason: because(&object, &field, &reason) }
    }

    /// Nor has a mirror there.
    fn without_mirror(&mut self, model: &IngressModel, pattern: &HostPattern) {
        let field = annotations::field(&self.view.options.annotations_prefix, "mirror-target");
        self.add(warning(
            Code::AnnotationInvalid,
            &object_ref(model),
            field,
            format!(
                "has $host as its host, which is not one name on host {pattern}; requests to that host are not copied"
            ),
            "name the host that gets the copies",
        ));
    }

    /// The pool of `default-backend`. Without it the program's default backend stands in, as in ingress-nginx.
    fn error_backend(&mut self, model: &IngressModel) -> Option<(PoolKey, ServiceRef)> {
        let name = model.in_namespace(model.error_backend.as_deref()?);
        match backend::replacement_service(self.view, &name, &mut self.uses) {
            Ok(backend) => Some(backend),
            Err(fault) => {
                let field = annotations::field(&self.view.options.annotations_prefix, "default-backend");
                self.add(warning(
                    fault.code(),
                    &object_ref(model),
                    field,
                    format!("{fault}; the program's default backend is used in its place"),
                    "create the Service with a TCP port, or name another one of the same namespace",
                ));
                None
            }
        }
    }
}

/// What a fault means for the routes, which another one may have closed.
fn fate(model: &IngressModel) -> &'static str {
    match model.closed() {
        None => "the routes of this Ingress answer 503",
        Some(_) => "this alone would close the routes of this Ingress with 503",
    }
}

/// The policies for what no path of a host takes.
pub(super) fn of_rest(model: &IngressModel, pattern: &HostPattern) -> Arc<Policies> {
    match model.rules_of(pattern) {
        // The host is none that an Ingress may have: it is closed whole.
        [first, others @ ..]
            if model.is_misnamed(*first) && others.iter().all(|rule| model.is_misnamed(*rule)) =>
        {
            model.policies_of_closed(&format!("spec.rules[{first}].host"), MISNAMED, REJECTED)
        }
        _ => model.policies("/"),
    }
}

/// As in ingress-nginx, what is left of a host has the annotations of the Ingress that it is left by, and the catch-all
/// redirects nobody.
pub(super) fn rest_action(pattern: &HostPattern, model: &IngressModel, backend: Backend) -> Action {
    match &model.redirect {
        Some(redirect) if *pattern != HostPattern::Any => Action::Redirect((**redirect).clone()),
        _ => forward(backend),
    }
}
