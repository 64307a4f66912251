//! Manifests shared by many tests.

/// Returns a Deployment of echo servers with a Service of the same name, from port 80 to port 8080.
pub fn deployment(name: &str, replicas: u32) -> String {
    with_lifecycle(name, replicas, "")
}

/// Like [`deployment`], for tests that must not lose a request: a Pod to be ended keeps responding
/// for some seconds, during which all clients learn of its end.
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
