//! A cluster whose store was restored from a backup: lower versions than before are accepted.

use sluice_controller::Options;

use crate::fake::Fake;
use crate::objects::*;
use crate::plane::Plane;

#[test]
fn after_a_restore_lower_versions_are_news() {
    for streaming in [true, false] {
        let fake = Fake::start();
        if !streaming {
            for resource in ["ingresses", "ingressclasses", "services", "endpointslices", "secrets"] {
                fake.without_streaming(resource);
            }
        }
        fake.put("ingressclasses", class("nginx"));
        fake.put("services", service());
        fake.put("endpointslices", slice("10.0.0.1"));
        fake.put("secrets", secret("tls", "old.example"));
        fake.put("ingresses", ingress("web", "web.example", Some("nginx"), Some("tls")));
        let backup = fake.revision();
        // Changes that the backup lacks. All their versions are higher than any after the restore.
        for _ in 0..50 {
            fake.put("endpointslices", slice("10.0.0.2"));
        }
        fake.put("secrets", secret("tls", "new.example"));
        fake.put("ingresses", ingress("web", "web.example", Some("nginx"), Some("tls")));
        fake.put("ingresses", ingress("late", "late.example", Some("nginx"), None));
        let plane = Plane::start(&fake, Options::default());
        let new = ["web.example", "late.example", "10.0.0.2", "cert:new.example"];
        plane.until("the first state", |seen| new.iter().all(|word| seen.has(word)));

        fake.restore(backup);
        // Objects that the backup has in an older form.
        fake.put("endpointslices", slice("10.0.0.1"));
        fake.put("secrets", secret("tls", "old.example"));
        fake.put("ingresses", ingress("web", "web.example", Some("nginx"), Some("tls")));
        let old = ["web.example", "10.0.0.1", "cert:old.example"];
        plane.until("what was restored", |seen| {
            old.iter().all(|word| seen.has(word)) && !seen.has("late.example")
        });
        // From then on, changes are followed as usual.
        fake.put("endpointslices", slice("10.0.0.3"));
        plane.until("the next change", |seen| seen.has("10.0.0.3"));
    }
}
