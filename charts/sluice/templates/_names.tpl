{{/* Names, namespaces and labels of all objects. */}}

{{- define "sluice.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "sluice.fullname" -}}
{{- $name := include "sluice.name" . -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 63 | trimSuffix "-" -}}
{{- else if contains $name .Release.Name -}}
{{- .Release.Name | trunc 63 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name $name | trunc 63 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "sluice.controller" -}}
{{- printf "%s-%s" (include "sluice.fullname" .) .Values.controller.name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "sluice.defaultBackend" -}}
{{- printf "%s-%s" (include "sluice.fullname" .) .Values.defaultBackend.name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "sluice.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride -}}
{{- end -}}

{{- define "sluice.account" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "sluice.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "sluice.defaultBackend.account" -}}
{{- if .Values.defaultBackend.serviceAccount.create -}}
{{- default (printf "%s-backend" (include "sluice.fullname" .)) .Values.defaultBackend.serviceAccount.name -}}
{{- else -}}
{{- default "default-backend" .Values.defaultBackend.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{/* What selects the Pods of a component. It must not change for the life of a release. */}}
{{- define "sluice.selector" -}}
app.kubernetes.io/name: {{ include "sluice.name" .root }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/*
The metadata labels of an object of a component, merged so that no key comes twice: `more` wins.
*/}}
{{- define "sluice.labels" -}}
{{- $root := .root -}}
{{- $all := dict
      "helm.sh/chart" (printf "%s-%s" $root.Chart.Name $root.Chart.Version | replace "+" "_")
      "app.kubernetes.io/version" ($root.Chart.AppVersion | toString)
      "app.kubernetes.io/part-of" (include "sluice.name" $root)
      "app.kubernetes.io/managed-by" $root.Release.Service -}}
{{- $all = mergeOverwrite $all ($root.Values.commonLabels | deepCopy) -}}
{{- $own := ternary $root.Values.defaultBackend.labels $root.Values.controller.labels (eq .component "default-backend") -}}
{{- $all = mergeOverwrite $all ($own | deepCopy) -}}
{{- range .more }}{{ $all = mergeOverwrite $all (. | deepCopy) }}{{ end -}}
{{- $all = mergeOverwrite $all (include "sluice.selector" . | fromYaml) -}}
{{- toYaml $all -}}
{{- end -}}

{{/*
Name of cluster-scoped objects; distinguishes releases of the same name in different namespaces.
*/}}
{{- define "sluice.clusterName" -}}
{{- $name := include "sluice.fullname" . -}}
{{- $namespace := include "sluice.namespace" . -}}
{{- ternary $name (printf "%s-%s" $namespace $name | trunc 52 | trimSuffix "-") (eq $namespace .Release.Name) -}}
{{- end -}}

{{- define "sluice.webhook" -}}
{{- printf "%s-%s" (include "sluice.fullname" .) .Values.controller.admissionWebhooks.name | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{- define "sluice.webhook.service" -}}
{{- printf "%s-admission" (include "sluice.controller" .) -}}
{{- end -}}

{{- define "sluice.webhook.configuration" -}}
{{- printf "%s-%s" (include "sluice.clusterName" .) .Values.controller.admissionWebhooks.name -}}
{{- end -}}

{{/* What the API server may call the webhook, with commas. */}}
{{- define "sluice.webhook.hosts" -}}
{{- $service := include "sluice.webhook.service" . -}}
{{- $namespace := include "sluice.namespace" . -}}
{{- printf "%s,%s.%s,%s.%s.svc" $service $service $namespace $service $namespace -}}
{{- end -}}

{{- define "sluice.webhook.account" -}}
{{- with .Values.controller.admissionWebhooks.patch.serviceAccount -}}
{{- if .create -}}
{{- default (include "sluice.webhook" $) .name -}}
{{- else -}}
{{- default "default" .name -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "sluice.class" -}}
{{- default (ternary "nginx" "sluice" .Values.compatibility.ingressNginx) .Values.controller.ingressClassResource.name -}}
{{- end -}}

{{- define "sluice.controllerClass" -}}
{{- default (ternary "k8s.io/ingress-nginx" "sluice.dev/ingress-controller" .Values.compatibility.ingressNginx) .Values.controller.ingressClassResource.controllerValue -}}
{{- end -}}

{{/*
The annotation kubernetes.io/ingress.class that is served: in ingress-nginx `nginx`, also for an
IngressClass of another name. Without rights to the cluster, Ingresses of the class are recognised
only by its name, which is the same flag.
*/}}
{{- define "sluice.annotationClass" -}}
{{- $default := ternary "nginx" (include "sluice.class" .) (and .Values.compatibility.ingressNginx (not .Values.rbac.scope)) -}}
{{- default $default .Values.controller.ingressClass -}}
{{- end -}}

{{- define "sluice.electionID" -}}
{{- default (printf "%s-leader" (include "sluice.fullname" .)) .Values.controller.electionID -}}
{{- end -}}

{{/*
The image of `image`, a map; `tag` and `registry` are for when neither it nor global.image has one.
*/}}
{{- define "sluice.image" -}}
{{- $registry := coalesce .image.registry .root.Values.global.image.registry .registry "" -}}
{{- $name := default (printf "%s/%s" $registry .image.image | trimPrefix "/") .image.repository -}}
{{- $digest := ternary (printf "@%s" .image.digest) "" (ne (.image.digest | default "") "") -}}
{{- printf "%s:%s%s" $name (default .tag .image.tag) $digest -}}
{{- end -}}

{{/*
A value as text: YAML reads a long number as a float, which would be written with an exponent.
*/}}
{{- define "sluice.text" -}}
{{- if kindIs "float64" . -}}
{{- if eq (. | floor) . }}{{ . | int64 }}{{ else }}{{ . }}{{ end -}}
{{- else if kindIs "invalid" . -}}
{{- else -}}
{{- . | toString -}}
{{- end -}}
{{- end -}}

{{/*
The name of the ConfigMap with the fields of `proxySetHeaders` or `addHeaders`, and its namespace:
one that the gateway reads.
*/}}
{{- define "sluice.headers" -}}
{{- printf "%s-custom-%s" (include "sluice.fullname" .root) (ternary "proxy-headers" "add-headers" (eq .value "proxySetHeaders")) -}}
{{- end -}}

{{/*
The keys of the ConfigMap. Values may be templates; the ConfigMaps of header fields are named unless
the values name others.
*/}}
{{- define "sluice.replicas" -}}
{{- include "sluice.controller" . }}-replicas
{{- end -}}

{{- define "sluice.config" -}}
{{- $keys := dict -}}
{{- range $key, $value := dict "proxy-set-headers" "proxySetHeaders" "add-headers" "addHeaders" -}}
{{- if get $.Values.controller $value -}}
{{- $name := include "sluice.headers" (dict "root" $ "value" $value) -}}
{{- $_ := set $keys $key (printf "%s/%s" (include "sluice.headers.namespace" $) $name) -}}
{{- end -}}
{{- end -}}
{{- if .Values.replicaLimits.enabled }}{{ $_ := set $keys "limit-across-replicas" "true" }}{{ end -}}
{{- if .Values.controller.allowSnippetAnnotations }}{{ $_ := set $keys "allow-snippet-annotations" "true" }}{{ end -}}
{{- range $key, $value := .Values.controller.config }}{{ $_ := set $keys $key (tpl (include "sluice.text" $value) $) }}{{ end -}}
{{- toYaml $keys -}}
{{- end -}}

{{/*
The value of a key that the gateway reads: that of the exact name or, without it, of the first name
in another case.
*/}}
{{- define "sluice.configValue" -}}
{{- $keys := include "sluice.config" .root | fromYaml -}}
{{- $names := list -}}
{{- if hasKey $keys .key }}{{ $names = list .key }}{{ end -}}
{{- range $name := keys $keys | sortAlpha }}{{ if eq (lower $name) $.key }}{{ $names = append $names $name }}{{ end }}{{ end -}}
{{- with first $names }}{{ get $keys . }}{{ end -}}
{{- end -}}

{{- define "sluice.headers.namespace" -}}
{{- default (include "sluice.namespace" .) (include "sluice.watchedNamespace" .) -}}
{{- end -}}

{{/* A map whose values become texts. */}}
{{- define "sluice.texts" -}}
{{- range $key, $value := . }}
{{ $key | quote }}: {{ include "sluice.text" $value | quote }}
{{- end }}
{{- end -}}

{{/*
A map whose values are templates and become texts: `list ROOT MAP`. A template may contain quotation
marks, so it is run first.
*/}}
{{- define "sluice.templates" -}}
{{- $root := index . 0 -}}
{{- range $key, $value := index . 1 }}
{{ $key | quote }}: {{ tpl (include "sluice.text" $value) $root | quote }}
{{- end }}
{{- end -}}
