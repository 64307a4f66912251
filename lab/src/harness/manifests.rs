//! Manifests that many tests need.

/// A Deployment of echo servers and its Service of the same name, on port 80 to port 8080.
pub fn deployment(name: &str, replicas: u32) -> String {
    with_lifecycle(name, replicas, "")
}

/// The same for a Deployment that must not lose a request: a Pod that is to end goes on answering for some
/// seconds, in which everybody hears of it.
pub fn graceful_deployment(name: &str, replicas: u32, seconds: u32) -> String {
    let hook = format!("lifecycle: {{preStop: {{sleep: {{seconds: {seconds}}}}}}}");
    with_lifecycle(name, replicas, &hook)
}

fn with_lifecycle(name: &str, replicas: u32, lifecycle: &str) -> String {
    format!(
        r"
apiVersion: apps/v1
kind: Deployment
metadata: {{name: {name}}}
spec:
  replicas: {replicas}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      containers:
      - name: echo
        image: echo
        ports: [{{name: http, containerPort: 8080}}]
        env:
        - {{name: NAMESPACE, valueFrom: {{fieldRef: {{fieldPath: metadata.namespace}}}}}}
        - {{name: NODE_NAME, valueFrom: {{fieldRef: {{fieldPath: spec.nodeName}}}}}}
        readinessProbe: {{httpGet: {{path: /healthz, port: http}}, periodSeconds: 1}}
        {lifecycle}
---
apiVersion: v1
kind: Service
metadata: {{name: {name}}}
spec:
  selector: {{app: {name}}}
  ports: [{{name: http, port: 80, targetPort: http}}]
"
    )
}
