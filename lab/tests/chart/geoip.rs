//! GeoIP2 databases: the key of the download, and the folder that it needs below a read-only root.

use serde_json::{Value, json};

use crate::helm::{objects, template_values};
use crate::rendered::{arguments, container, workload};

fn render(controller: &str) -> Vec<Value> {
    let values = format!("controller:\n  image: {{repository: registry.example/sluice}}\n{controller}");
    objects(&template_values(&values).unwrap_or_else(|message| panic!("{message}")))
}

fn mounts(all: &[Value]) -> Vec<&Value> {
    let mounts = container(all)["volumeMounts"].as_array().expect("mounts");
    mounts.iter().filter(|mount| mount["name"] == "sluice-geoip").collect()
}

#[test]
fn a_licence_key_downloads_into_a_volume() {
    let all = render("  maxmindLicenseKey: \"123abc\"\n");
    assert!(arguments(&all).contains(&"--maxmind-license-key=123abc"));
    assert_eq!(
        mounts(&all),
        [&json!({"name": "sluice-geoip", "mountPath": "/etc/ingress-controller/geoip"})]
    );
    let volumes = workload(&all)["spec"]["template"]["spec"]["volumes"].as_array().expect("volumes").clone();
    assert!(volumes.contains(&json!({"name": "sluice-geoip", "emptyDir": {}})));
}

#[test]
fn a_volume_of_the_operator_is_not_covered() {
    for path in ["/etc/ingress-controller/geoip", "/etc/ingress-controller/geoip/"] {
        let all = render(&format!(
            "  maxmindLicenseKey: \"123abc\"\n  extraVolumes: [{{name: mine, emptyDir: {{}}}}]\n  \
             extraVolumeMounts: [{{name: mine, mountPath: {path}}}]\n",
        ));
        assert_eq!(mounts(&all), [] as [&Value; 0], "{path}");
    }
    assert_eq!(mounts(&render("")), [] as [&Value; 0], "nothing is downloaded");
}
