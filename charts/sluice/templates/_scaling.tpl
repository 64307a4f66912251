{{/* The limits of a PodDisruptionBudget. */}}
{{- define "sluice.budget" -}}
{{- if ne (.of.maxUnavailable | toString) "" -}}
maxUnavailable: {{ .of.maxUnavailable }}
{{- else -}}
minAvailable: {{ .of.minAvailable }}
{{- end }}
{{- with .of.unhealthyPodEvictionPolicy }}
unhealthyPodEvictionPolicy: {{ . }}
{{- end }}
{{- end -}}

{{/* A HorizontalPodAutoscaler for the Deployment `name`. */}}
{{- define "sluice.autoscaler" -}}
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata:
  name: {{ .name }}
  namespace: {{ include "sluice.namespace" .root }}
  labels: {{- include "sluice.labels" (dict "root" .root "component" .component) | nindent 4 }}
  {{- with .of.annotations }}
  annotations: {{- include "sluice.texts" . | nindent 4 }}
  {{- end }}
spec:
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: {{ .name }}}
  minReplicas: {{ .of.minReplicas }}
  maxReplicas: {{ .of.maxReplicas }}
  metrics:
  {{- range $resource, $percent := dict "cpu" .of.targetCPUUtilizationPercentage "memory" .of.targetMemoryUtilizationPercentage }}
  {{- with $percent }}
  - {type: Resource, resource: {name: {{ $resource }}, target: {type: Utilization, averageUtilization: {{ . }}}}}
  {{- end }}
  {{- end }}
  {{- with .more }}{{ toYaml . | nindent 2 }}{{ end }}
  {{- with .of.behavior }}
  behavior: {{ toYaml . | nindent 4 }}
  {{- end }}
{{- end -}}
