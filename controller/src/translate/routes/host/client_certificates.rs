//! The client certificates that a host requires: the `auth-tls-*` annotations of the oldest Ingress
//! that names a Secret, for all paths of the host, as in ingress-nginx, because a handshake is made
//! for a host. While its Secret cannot be used, the whole host is closed.

use std::sync::Arc;

use sluice_config::{ClientCertificateMode, ClientCertificates, Code, Deny, HostPattern, Rule};

use super::{Builder, close, object_ref};
use crate::problem::{because, error, warning};
use crate::translate::routes::ObjectRoutes;

/// The setting that names the Secret.
const AUTHORITIES: &str = "auth-tls-secret";

/// Status of a host whose clients cannot be verified.
const CLOSED: u16 = 403;

const REMEDY: &str = "give one of the two another host, or the same auth-tls annotations";

impl Builder<'_, '_> {
    /// Returns the policy of a host. Rules that it cannot protect are closed.
    pub(super) fn client_certificates(
        &mut self,
        pattern: &HostPattern,
        claimants: &[&Arc<ObjectRoutes>],
        rules: &mut [Rule],
    ) -> Option<Arc<ClientCertificates>> {
        let mut owners = claimants.iter().filter(|routes| routes.settings.client_certificates.is_some());
        let owner = owners.next()?;
        let policy = owner.settings.client_certificates.clone()?;
        let fault = self.unusable_authorities(owner, &policy, &format!("all routes of host {pattern}"));
        for other in owners {
            let own = other.settings.client_certificates.clone().filter(|own| *own != policy);
            let Some(own) = own else { continue };
            self.report_other_policy(pattern, owner, other);
            // The setting of the rule's own object is not available, whatever protects the rest of
            // the host.
            if let Some(deny) = self.unusable_authorities(other, &own, "the routes of this Ingress") {
                let name = &other.object.name;
                close(rules.iter_mut().filter(|rule| rule.origin.object.name == *name), &deny);
            }
        }
        let namespace = owner.namespace();
        for routes in claimants.iter().filter(|routes| routes.settings.client_certificates.is_none()) {
            if fault.is_some() {
                self.report_closed(pattern, owner, routes);
            } else if routes.namespace() != namespace && policy.mode != ClientCertificateMode::Off {
                self.report_foreign_policy(pattern, owner, routes);
            }
        }
        match fault {
            Some(deny) => {
                close(rules.iter_mut(), &deny);
                None
            }
            None => Some(policy),
        }
    }

    /// Uses the Secret of a policy, or reports why it cannot be used. Without verification none is
    /// needed.
    fn unusable_authorities(
        &mut self,
        routes: &ObjectRoutes,
        policy: &ClientCertificates,
        closed: &str,
    ) -> Option<Deny> {
        if policy.mode == ClientCertificateMode::Off {
            return None;
        }
        let key = &policy.verification.authorities;
        let Some(fault) = self.view.resource(key).fault(key, self.view.options) else {
            self.uses.resource(key);
            return None;
        };
        let object = object_ref(routes);
        let field = self.view.setting_field(&object, AUTHORITIES);
        let reason = because(&object, &field, &fault.reason);
        let message = format!("{}; {closed} answer {CLOSED}", fault.reason);
        self.add(error(fault.code, &object, field, message, fault.remedy));
        Some(Deny { status: CLOSED, reason })
    }

    fn report_closed(&mut self, pattern: &HostPattern, owner: &ObjectRoutes, routes: &ObjectRoutes) {
        let message = format!(
            "all routes of host {pattern} answer {CLOSED}, because Ingress {} requires client certificates for it, and \
             its Secret cannot be used",
            owner.object.name
        );
        self.add(error(Code::HostClosed, &object_ref(routes), "spec.rules", message, REMEDY));
    }

    fn report_foreign_policy(&mut self, pattern: &HostPattern, owner: &ObjectRoutes, routes: &ObjectRoutes) {
        let message = format!(
            "Ingress {} of another namespace has auth-tls annotations for host {pattern}, which apply to this Ingress \
             too, as in ingress-nginx",
            owner.object.name
        );
        let object = object_ref(routes);
        self.add(warning(Code::ClientCertificatesOfSibling, &object, "spec.rules", message, REMEDY));
    }

    fn report_other_policy(&mut self, pattern: &HostPattern, owner: &ObjectRoutes, routes: &ObjectRoutes) {
        let message = format!(
            "the auth-tls annotations of Ingress {}, which is older, apply to host {pattern} in place of these, as in \
             ingress-nginx",
            owner.object.name
        );
        let object = object_ref(routes);
        let field = self.view.setting_field(&object, AUTHORITIES);
        self.add(warning(Code::ClientCertificatesOfSibling, &object, field, message, REMEDY));
    }
}
