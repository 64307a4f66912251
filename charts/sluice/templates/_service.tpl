{{/* A Service for the gateway's requests: `of` are its values, `suffix` ends its name. */}}
{{- define "sluice.service" -}}
{{- $of := .of -}}
{{- $root := .root -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ include "sluice.controller" $root }}{{ .suffix }}
  namespace: {{ include "sluice.namespace" $root }}
  labels: {{- include "sluice.labels" (dict "root" $root "component" "controller" "more" .labels) | nindent 4 }}
  {{- with $of.annotations }}
  annotations: {{- include "sluice.templates" (list $root .) | nindent 4 }}
  {{- end }}
spec:
  type: {{ $of.type }}
  selector: {{- include "sluice.selector" (dict "root" $root "component" "controller") | nindent 4 }}
  {{- include "sluice.serviceAddresses" $of | nindent 2 }}
  {{- range $field := list "loadBalancerClass" "sessionAffinity" "ipFamilyPolicy" }}
  {{- with get $of $field }}
  {{ $field }}: {{ . }}
  {{- end }}
  {{- end }}
  {{- with $of.ipFamilies }}
  ipFamilies: {{ toJson . }}
  {{- end }}
  {{- with $of.healthCheckNodePort }}
  healthCheckNodePort: {{ . }}
  {{- end }}
  {{- if not (kindIs "invalid" $of.allocateLoadBalancerNodePorts) }}
  allocateLoadBalancerNodePorts: {{ $of.allocateLoadBalancerNodePorts }}
  {{- end }}
  {{- if and $of.trafficDistribution (semverCompare ">=1.31.0-0" $root.Capabilities.KubeVersion.Version) }}
  trafficDistribution: {{ $of.trafficDistribution }}
  {{- end }}
  ports:
  {{- range $protocol := list "http" "https" }}
  {{- if ternary $of.enableHttp $of.enableHttps (eq $protocol "http") }}
  - name: {{ $protocol }}
    protocol: TCP
    port: {{ get $of.ports $protocol }}
    targetPort: {{ include "sluice.targetPort" (list $root (get $of.targetPorts $protocol)) }}
    {{- if $of.appProtocol }}
    appProtocol: {{ $protocol }}
    {{- end }}
    {{- with get $of.nodePorts $protocol }}
    {{- if ne $of.type "ClusterIP" }}
    nodePort: {{ . }}
    {{- end }}
    {{- end }}
  {{- end }}
  {{- end }}
  {{- range $protocol, $ports := include "sluice.streams" $root | fromYaml }}
  {{- range $port, $name := $ports }}
  - name: {{ $name }}
    protocol: {{ upper $protocol }}
    port: {{ $port }}
    targetPort: {{ $name }}
    {{- with get (get $of.nodePorts $protocol) $port }}
    {{- if ne $of.type "ClusterIP" }}
    nodePort: {{ . }}
    {{- end }}
    {{- end }}
  {{- end }}
  {{- end }}
{{- end -}}

{{/* The addresses of any Service. */}}
{{- define "sluice.serviceAddresses" -}}
{{- $of := . -}}
{{- range $field := list "clusterIP" "loadBalancerIP" "externalTrafficPolicy" }}
{{- with get $of $field }}
{{ $field }}: {{ . }}
{{- end }}
{{- end }}
{{- range $field := list "clusterIPs" "externalIPs" "loadBalancerSourceRanges" }}
{{- with get $of $field }}
{{ $field }}: {{ toJson . }}
{{- end }}
{{- end }}
{{- end -}}
