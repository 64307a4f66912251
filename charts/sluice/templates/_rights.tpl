{{/*
The permissions of the gateway: exactly those that the values require.

`sluice.rights` gives a map from namespace to rules, with the rules for the whole cluster under "".
What is served everywhere takes a ClusterRole; what is served in one namespace takes a Role there,
and a Role for each object elsewhere that a flag names.
*/}}
{{- define "sluice.rights" -}}
{{- $own := include "sluice.namespace" . -}}
{{- $flags := include "sluice.flags" . | fromYaml -}}
{{- $watched := include "sluice.watchedNamespace" . -}}
{{- $rights := dict $own list $watched list "" list -}}

{{- /* What is served. */ -}}
{{- $served := list
      (include "sluice.rule" (list "networking.k8s.io" "ingresses" "list watch"))
      (include "sluice.rule" (list "" "services secrets configmaps" "list watch"))
      (include "sluice.rule" (list "discovery.k8s.io" "endpointslices" "list watch")) -}}
{{- $_ := set $rights $watched (concat (get $rights $watched) $served) -}}
{{- $cluster := list (include "sluice.rule" (list "networking.k8s.io" "ingressclasses" "list watch")) -}}
{{- if get $flags "watch-namespace-selector" -}}
{{- $cluster = append $cluster (include "sluice.rule" (list "" "namespaces" "list watch")) -}}
{{- end -}}

{{- /* Which Node it will be is not known before there is a Pod. */ -}}
{{- if include "sluice.zoneAware" . -}}
{{- $cluster = append $cluster (include "sluice.rule" (list "" "nodes" "list watch")) -}}
{{- end -}}

{{- /* What is written: the Lease of the leader, Events, and the status of Ingresses. */ -}}
{{- $mine := list -}}
{{- if not (include "sluice.isOn" (list $flags "disable-leader-election")) -}}
{{- $mine = append $mine (include "sluice.rule" (list "coordination.k8s.io" "leases" "create")) -}}
{{- $mine = append $mine (include "sluice.rule" (list "coordination.k8s.io" "leases" "get watch update" (get $flags "election-id"))) -}}
{{- end -}}
{{- $events := include "sluice.rule" (list "" "events" "create patch") -}}
{{- $_ := set $rights $watched (append (get $rights $watched) $events) -}}
{{- if and $watched (ne $watched $own) }}{{ $mine = append $mine $events }}{{ end -}}
{{- if ne (include "sluice.switch" (get $flags "update-status")) "false" -}}
{{- $_ := set $rights $watched (append (get $rights $watched) (include "sluice.rule" (list "networking.k8s.io" "ingresses/status" "patch"))) -}}
{{- $mine = append $mine (include "sluice.rule" (list "" "pods" "get list")) -}}
{{- if ne (include "sluice.switch" (get $flags "update-status-on-shutdown")) "false" -}}
{{- $workload := ternary "daemonsets" "deployments" (eq .Values.controller.kind "DaemonSet") -}}
{{- $mine = append $mine (include "sluice.rule" (list "apps" $workload "get" (include "sluice.controller" .))) -}}
{{- end -}}
{{- if get $flags "publish-status-address" -}}
{{- else if get $flags "publish-service" -}}
{{- $name := splitList "/" (get $flags "publish-service" | replace "$(POD_NAMESPACE)" $own) -}}
{{- $_ := set $rights (first $name) (append (get $rights (first $name) | default list) (include "sluice.rule" (list "" "services" "get watch" (last $name)))) -}}
{{- else -}}
{{- $cluster = append $cluster (include "sluice.rule" (list "" "nodes" "get")) -}}
{{- end -}}
{{- end -}}
{{- $_ := set $rights $own (concat (get $rights $own) $mine) -}}

{{- /* Objects that flags name, outside of the namespace that is served. */ -}}
{{- if $watched -}}
{{- range $flag, $resource := dict "configmap" "configmaps" "tcp-services-configmap" "configmaps" "udp-services-configmap" "configmaps" "default-ssl-certificate" "secrets" "default-backend-service" "services" -}}
{{- if get $flags $flag -}}
{{- $name := splitList "/" (get $flags $flag | replace "$(POD_NAMESPACE)" $own) -}}
{{- if ne (first $name) $watched -}}
{{- $more := list (include "sluice.rule" (list "" $resource "list watch" (last $name))) -}}
{{- if eq $resource "services" }}{{ $more = append $more (include "sluice.rule" (list "discovery.k8s.io" "endpointslices" "list watch")) }}{{ end -}}
{{- if ne (first $name) $own }}{{ $more = append $more $events }}{{ end -}}
{{- $_ := set $rights (first $name) (concat (get $rights (first $name) | default list) $more) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- if not .Values.rbac.scope -}}
{{- $_ := set $rights "" (concat (get $rights "") $cluster) -}}
{{- end -}}
{{- range $namespace, $rules := $rights }}
{{- if $rules }}
{{ $namespace | quote }}:
{{- range $rules }}
- {{ . }}
{{- end }}
{{- end }}
{{- end -}}
{{- end -}}

{{/* One rule: group, resources, verbs, and the name of the only object. */}}
{{- define "sluice.rule" -}}
{{- $rule := dict "apiGroups" (list (index . 0)) "resources" (splitList " " (index . 1)) "verbs" (splitList " " (index . 2)) -}}
{{- if gt (len .) 3 }}{{ $_ := set $rule "resourceNames" (list (index . 3)) }}{{ end -}}
{{- toJson $rule -}}
{{- end -}}
