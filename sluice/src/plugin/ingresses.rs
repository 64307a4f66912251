//! `kubectl sluice ingresses`: prints a line for each path with its backend and the number of ready
//! endpoints.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::arguments::GatewaySelection;
use super::kubectl::Kubectl;

/// Selects the Ingresses to print.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    all_namespaces: bool,
    host: Option<String>,
    service: Option<String>,
}

impl Wanted {
    /// Parses the arguments of the subcommand.
    ///
    /// # Errors
    /// An argument is unknown.
    pub(super) fn read(words: &[String]) -> Result<Self> {
        let mut wanted = Self::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let (name, value) =
                word.split_once('=').map_or((word.as_str(), None), |(n, v)| (n, Some(v.to_owned())));
            let mut value = || {
                value
                    .clone()
                    .or_else(|| words.next().cloned())
                    .with_context(|| format!("{name} needs a value"))
            };
            match name {
                "-A" | "--all-namespaces" => wanted.all_namespaces = true,
                "--host" => wanted.host = Some(value()?),
                "--service" => wanted.service = Some(value()?),
                _ => bail!("unknown argument {word}; ingresses takes --all-namespaces, --host and --service"),
            }
        }
        Ok(wanted)
    }
}

/// Returns the lines of the table with its heading.
///
/// # Errors
/// kubectl fails.
pub(super) fn lines(
    kubectl: &Kubectl,
    target: &GatewaySelection,
    wanted: &Wanted,
) -> Result<Vec<Vec<String>>> {
    let mut arguments = vec!["get", "ingresses,endpointslices"];
    match &target.namespace {
        _ if wanted.all_namespaces => arguments.push("--all-namespaces"),
        Some(name) => arguments.extend(["--namespace", name]),
        None => {}
    }
    Ok(table(&kubectl.json(&arguments)?, wanted))
}

const HEADING: [&str; 9] =
    ["NAMESPACE", "NAME", "CLASS", "HOST+PATH", "ADDRESSES", "TLS", "SERVICE", "PORT", "ENDPOINTS"];

fn table(objects: &Value, wanted: &Wanted) -> Vec<Vec<String>> {
    let items = || objects["items"].as_array().into_iter().flatten();
    let mut ready: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for slice in items().filter(|object| object["kind"] == "EndpointSlice") {
        let labels = &slice["metadata"]["labels"];
        let service = labels["kubernetes.io/service-name"].as_str().unwrap_or_default();
        let endpoints = slice["endpoints"].as_array().into_iter().flatten();
        // A missing condition counts as true.
        let count = endpoints.filter(|one| one["conditions"]["ready"] != false).count();
        *ready.entry((text(&slice["metadata"]["namespace"]), service)).or_default() += count;
    }
    let mut lines = vec![HEADING.map(str::to_owned).to_vec()];
    for ingress in items().filter(|object| object["kind"] == "Ingress") {
        let (meta, spec) = (&ingress["metadata"], &ingress["spec"]);
        let class = match spec["ingressClassName"].as_str() {
            Some(class) => class,
            None => text(&meta["annotations"]["kubernetes.io/ingress.class"]),
        };
        let addresses = ingress["status"]["loadBalancer"]["ingress"].as_array().into_iter().flatten();
        let addresses: Vec<&str> =
            addresses.map(|one| one["ip"].as_str().unwrap_or_else(|| text(&one["hostname"]))).collect();
        let covered: Vec<&str> = spec["tls"]
            .as_array()
            .into_iter()
            .flatten()
            .flat_map(|tls| tls["hosts"].as_array().into_iter().flatten().map(text))
            .collect();
        let rules = spec["rules"].as_array().into_iter().flatten().flat_map(|rule| {
            let paths = rule["http"]["paths"].as_array().into_iter().flatten();
            paths.map(move |path| (text(&rule["host"]), text(&path["path"]), &path["backend"]))
        });
        let whole =
            std::iter::once(("", "", &spec["defaultBackend"])).filter(|(_, _, backend)| !backend.is_null());
        for (host, path, backend) in rules.chain(whole) {
            let service = text(&backend["service"]["name"]);
            let of_host = wanted.host.as_ref().is_none_or(|wanted| wanted == host);
            if !of_host || wanted.service.as_ref().is_some_and(|wanted| wanted != service) {
                continue;
            }
            let namespace = text(&meta["namespace"]);
            let port = &backend["service"]["port"];
            let port =
                port["number"].as_u64().map_or_else(|| text(&port["name"]).to_owned(), |n| n.to_string());
            let endpoints = ready.get(&(namespace, service)).copied().unwrap_or(0);
            lines.push(vec![
                namespace.to_owned(),
                text(&meta["name"]).to_owned(),
                class.to_owned(),
                format!("{}{path}", if host.is_empty() { "*" } else { host }),
                addresses.join(","),
                if covered.contains(&host) { "yes" } else { "no" }.to_owned(),
                service.to_owned(),
                port,
                endpoints.to_string(),
            ]);
        }
    }
    lines
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_path_has_a_line_with_the_endpoints_that_are_ready() {
        let slice = |ready: [Option<bool>; 2]| {
            json!({"kind": "EndpointSlice", "metadata": {"namespace": "shop", "labels": {"kubernetes.io/service-name": "web"}},
                "endpoints": ready.map(|ready| json!({"conditions": {"ready": ready}}))})
        };
        let backend = |port: Value| json!({"service": {"name": "web", "port": port}});
        let objects = json!({"items": [
            {"kind": "Ingress", "metadata": {"namespace": "shop", "name": "web"},
             "spec": {"ingressClassName": "nginx", "tls": [{"hosts": ["shop.example"]}], "defaultBackend": backend(json!({"number": 80})),
                "rules": [{"host": "shop.example", "http": {"paths": [{"path": "/", "backend": backend(json!({"name": "http"}))}]}}]},
             "status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}, {"hostname": "lb.example"}]}}},
            slice([Some(true), Some(false)]), slice([None, Some(true)]),
        ]});
        let lines = table(&objects, &Wanted::default());
        assert_eq!(lines[1].join(" "), "shop web nginx shop.example/ 192.0.2.1,lb.example yes web http 3");
        assert_eq!(lines[2].join(" "), "shop web nginx * 192.0.2.1,lb.example no web 80 3");
        let wanted = Wanted::read(&["--host=shop.example".to_owned()]).unwrap();
        assert_eq!(table(&objects, &wanted).len(), 2);
        let wanted = Wanted::read(&["--service".to_owned(), "other".to_owned()]).unwrap();
        assert_eq!(table(&objects, &wanted).len(), 1);
        assert!(Wanted::read(&["--hots".to_owned()]).unwrap_err().to_string().contains("--hots"));
    }
}
