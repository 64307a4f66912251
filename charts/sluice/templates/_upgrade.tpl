{{/*
What an upgrade must not do, as a JSON list of messages. Kubernetes never changes the selector of a
Deployment or DaemonSet, and Helm applies Services first: with another selector, the upgrade would
fail after the Service has lost all Pods. `helm template` has no cluster, so it finds nothing.
*/}}
{{- define "sluice.refusedUpgrade" -}}
{{- $namespace := include "sluice.namespace" . -}}
{{- $beside := "install a release of another name beside it (docs/migrate-from-ingress-nginx.md)" -}}
{{- $workloads := list (dict "kind" .Values.controller.kind "name" (include "sluice.controller" .) "component" "controller") -}}
{{- if .Values.defaultBackend.enabled -}}
{{- $workloads = append $workloads (dict "kind" "Deployment" "name" (include "sluice.defaultBackend" .) "component" "default-backend") -}}
{{- end -}}
{{- $wrong := list -}}
{{- range $workloads -}}
{{- $selector := dict "matchLabels" (include "sluice.selector" (dict "root" $ "component" .component) | fromYaml) -}}
{{- $current := dig "spec" "selector" dict (lookup "apps/v1" .kind $namespace .name) -}}
{{- if and $current (ne (toJson $current) (toJson $selector)) -}}
{{- $name := dig "matchLabels" "app.kubernetes.io/name" "" $current -}}
{{- $_ := set $selector.matchLabels "app.kubernetes.io/name" $name -}}
{{- $fix := ternary (printf "set nameOverride=%s" $name) $beside (eq (toJson $current) (toJson $selector)) -}}
{{- $wrong = append $wrong (printf "nameOverride: %s %s/%s has another selector, %s, which no upgrade can change, and its Service would select no Pod; %s" .kind $namespace .name (toJson $current) $fix) -}}
{{- end -}}
{{- end -}}
{{- if .Release.IsUpgrade -}}
{{- range $kind := list "Deployment" "DaemonSet" -}}
{{- range (lookup "apps/v1" $kind $namespace "").items -}}
{{- $labels := .metadata.labels | default dict -}}
{{- $is_replaced := and (eq (get $labels "app.kubernetes.io/instance") $.Release.Name) (eq (get $labels "app.kubernetes.io/component") "controller") (hasPrefix "ingress-nginx-" (get $labels "helm.sh/chart")) -}}
{{- if and $is_replaced (ne .metadata.name (include "sluice.controller" $)) -}}
{{- $wrong = append $wrong (printf "nameOverride: this upgrade would delete %s %s/%s of ingress-nginx and its Service before Sluice serves; set nameOverride=%s, and fullnameOverride as before, to keep their names, or %s" $kind $namespace .metadata.name (get $labels "app.kubernetes.io/name") $beside) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $wrong -}}
{{- end -}}
