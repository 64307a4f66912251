//! Many changes under load: a thousand Ingresses are created and deleted, and a Secret is rotated
//! twenty times per second.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::networking::v1::Ingress;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use sluice_lab::harness::load::{Load, LoadTarget};
use sluice_lab::harness::{TestClass, client_of, handshake, shared};
use sluice_testing::certificate::Authority;
use tokio::time::{Instant, MissedTickBehavior, interval};

const HOST: &str = "web.example";

/// Number of Ingresses.
const MANY: usize = 1000;

/// Number of rotations of the certificate, and rotations per second.
const ROTATIONS: usize = 100;
const ROTATIONS_A_SECOND: u32 = 20;

/// Maximum time from an acknowledged write to the presentation of the certificate. Generous: the
/// gateway is built without optimisation, and shares two cores with the API server and the clients.
const SHOWN_WITHIN: Duration = Duration::from_secs(5);

#[test]
fn a_thousand_ingresses_come_and_go_without_a_lost_request() {
    shared(async |cluster| {
        let class = TestClass::web(cluster, 2).await?;
        let gateway = class.gateway(cluster, &[]).await?;
        cluster.served(gateway.http, HOST, 200).await?;
        let load = Load::new(cluster, gateway.http, [LoadTarget::new(HOST, "web")]).start().await?;

        let api = cluster.api::<Ingress>();
        let (api, class) = (&api, &class);
        stream::iter(0..MANY)
            .map(|number| async move {
                let text = class.ingress(&format!("bulk-{number}"), &host(number), "web");
                let mut object: Ingress = serde_yaml::from_str(&text)?;
                object.metadata.labels = Some([("bulk".to_owned(), "true".to_owned())].into());
                api.create(&PostParams::default(), &object).await?;
                anyhow::Ok(())
            })
            .buffer_unordered(16)
            .try_collect::<Vec<()>>()
            .await?;
        for number in [0, MANY / 2, MANY - 1] {
            cluster.served(gateway.http, &host(number), 200).await?;
        }
        let all = ListParams::default().labels("bulk=true");
        api.delete_collection(&DeleteParams::default(), &all).await?;
        for number in [0, MANY / 2, MANY - 1] {
            cluster.served(gateway.http, &host(number), 404).await?;
        }
        load.stop("1,000 Ingresses created and deleted").await?.none_failed()
    });
}

fn host(number: usize) -> String {
    format!("bulk-{number}.example")
}

#[test]
fn a_secret_rotated_twenty_times_a_second_fails_no_handshake() {
    shared(async |cluster| {
        let authority = Authority::new();
        let client = client_of(&authority);
        let certificates = (0..=ROTATIONS).map(|_| authority.issue(&[HOST])).collect::<Vec<_>>();
        cluster.apply(&certificates[0].secret_in(&cluster.namespace, "web-tls")).await?;
        let class = TestClass::web(cluster, 2).await?;
        let tls = json!([{"hosts": [HOST], "secretName": "web-tls"}]);
        cluster.merge::<Ingress>("web", json!({"spec": {"tls": tls}})).await?;
        let gateway = class.gateway(cluster, &[]).await?;
        cluster
            .until("the first handshake", async || handshake(&client, gateway.https, HOST).await.map(Some))
            .await?;
        let load =
            Load::new(cluster, gateway.https, [LoadTarget::new(HOST, "web")]).rate(80).tls(client.clone());
        let load = load.start().await?;

        // The newest rotation whose write has begun, and the newest whose write was acknowledged.
        let (begun, written) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let rotate = async {
            let api = cluster.api::<Secret>();
            let mut ticks = interval(Duration::from_secs(1) / ROTATIONS_A_SECOND);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            for (number, certificate) in certificates.iter().enumerate().skip(1) {
                ticks.tick().await;
                begun.store(number, Ordering::SeqCst);
                let secret: Value =
                    serde_yaml::from_str(&certificate.secret_in(&cluster.namespace, "web-tls"))?;
                api.patch("web-tls", &PatchParams::default(), &Patch::Merge(secret)).await?;
                written.store(number, Ordering::SeqCst);
            }
            anyhow::Ok(Instant::now())
        };
        let watch = async {
            let mut shown = Vec::new();
            let mut last = 0;
            while last < ROTATIONS {
                let certificate = handshake(&client, gateway.https, HOST).await?;
                let number = certificates.iter().position(|known| known.der == certificate);
                let number = number.context("a certificate of no Secret was presented")?;
                ensure!(number >= last, "certificate {number} was shown after {last}");
                ensure!(
                    number <= begun.load(Ordering::SeqCst),
                    "a certificate was shown before it was written"
                );
                if number > last {
                    shown.push(number);
                }
                last = number;
            }
            anyhow::Ok((Instant::now(), shown.len()))
        };
        let (finished, (seen, shown)) = tokio::try_join!(rotate, watch)?;
        let late = seen.saturating_duration_since(finished);
        ensure!(late < SHOWN_WITHIN, "the last certificate was shown {late:?} after its write");
        println!("{shown} of {ROTATIONS} certificates were seen, the last one after {late:?}");
        load.stop("a Secret rotated 20 times a second").await?.none_failed()
    });
}
