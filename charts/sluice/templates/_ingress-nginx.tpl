{{/*
The helpers of the ingress-nginx chart 4.15.1 that values include in templates (`affinity`,
`extraInitContainers`, ...).

Helpers are global: in a parent chart that has both charts, either definition may be in force for
both. Each one therefore gives exactly what its namesake gives, and uses nothing else of this chart.
*/}}

{{- define "ingress-nginx.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "ingress-nginx.chart" -}}
{{- printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "ingress-nginx.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $full .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "ingress-nginx.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "ingress-nginx.selectorLabels" -}}
app.kubernetes.io/name: {{ include "ingress-nginx.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "ingress-nginx.labels" -}}
helm.sh/chart: {{ include "ingress-nginx.chart" . }}
{{ include "ingress-nginx.selectorLabels" . }}
{{- with .Chart.AppVersion }}
app.kubernetes.io/version: {{ . | quote }}
{{- end }}
app.kubernetes.io/part-of: {{ include "ingress-nginx.name" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The full name with a part behind it. */}}
{{- define "ingress-nginx.part" -}}
{{- printf "%s-%s" (include "ingress-nginx.fullname" .root) .part | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "ingress-nginx.controller.fullname" -}}
{{- include "ingress-nginx.part" (dict "root" . "part" .Values.controller.name) -}}
{{- end -}}

{{- define "ingress-nginx.controller.electionID" -}}
{{- default (printf "%s-leader" (include "ingress-nginx.fullname" .)) .Values.controller.electionID -}}
{{- end -}}

{{- define "ingress-nginx.controller.publishServicePath" -}}
{{- $own := printf "$(POD_NAMESPACE)/%s" (include "ingress-nginx.controller.fullname" .) -}}
{{- default $own .Values.controller.publishService.pathOverride | trimSuffix "-" -}}
{{- end -}}

{{- define "ingress-nginx.serviceAccountName" -}}
{{- $created := ternary (include "ingress-nginx.fullname" .) "default" .Values.serviceAccount.create -}}
{{- default $created .Values.serviceAccount.name -}}
{{- end -}}

{{- define "ingress-nginx.defaultBackend.fullname" -}}
{{- include "ingress-nginx.part" (dict "root" . "part" .Values.defaultBackend.name) -}}
{{- end -}}

{{- define "ingress-nginx.defaultBackend.serviceAccountName" -}}
{{- with .Values.defaultBackend.serviceAccount -}}
{{- default (ternary (printf "%s-backend" (include "ingress-nginx.fullname" $)) "default-backend" .create) .name -}}
{{- end -}}
{{- end -}}

{{- define "ingress-nginx.admissionWebhooks.fullname" -}}
{{- include "ingress-nginx.part" (dict "root" . "part" .Values.controller.admissionWebhooks.name) -}}
{{- end -}}

{{- define "ingress-nginx.admissionWebhooks.patch.serviceAccountName" -}}
{{- with .Values.controller.admissionWebhooks.patch.serviceAccount -}}
{{- default (ternary (include "ingress-nginx.admissionWebhooks.fullname" $) "default" .create) .name -}}
{{- end -}}
{{- end -}}

{{- define "ingress-nginx.admissionWebhooks.createSecretJob.fullname" -}}
{{- printf "%s-%s" (include "ingress-nginx.admissionWebhooks.fullname" .) .Values.controller.admissionWebhooks.createSecretJob.name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "ingress-nginx.admissionWebhooks.patchWebhookJob.fullname" -}}
{{- printf "%s-%s" (include "ingress-nginx.admissionWebhooks.fullname" .) .Values.controller.admissionWebhooks.patchWebhookJob.name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
