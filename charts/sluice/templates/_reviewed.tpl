{{/* Which Ingresses the API server sends to the webhook: those that the gateway can serve. */}}

{{/* The namespaces, as a selector of their labels; empty for all of them. */}}
{{- define "sluice.reviewed.namespaces" -}}
{{- $flags := include "sluice.flags" . | fromYaml -}}
{{- $webhooks := .Values.controller.admissionWebhooks -}}
{{- if $webhooks.namespaceSelector -}}
{{- toYaml $webhooks.namespaceSelector -}}
{{- else if get $flags "watch-namespace" -}}
matchLabels: {kubernetes.io/metadata.name: {{ include "sluice.watchedNamespace" . }}}
{{- else if get $flags "watch-namespace-selector" -}}
{{- include "sluice.labelSelector" (get $flags "watch-namespace-selector") -}}
{{- end -}}
{{- end -}}

{{/*
A label selector in the notation of `kubectl --selector`, as an object. `key>1` and `key<1` have no
equal there and are left out, so that more is selected.
*/}}
{{- define "sluice.labelSelector" -}}
{{- $all := list -}}
{{- range regexFindAll "[^,()]+(\\([^()]*\\))?" . -1 -}}
{{- $part := trim . -}}
{{- $key := regexFind "[^\\s=!<>()]+" $part -}}
{{- if regexMatch "^!" $part -}}
{{- $all = append $all (dict "key" $key "operator" "DoesNotExist") -}}
{{- else if regexMatch "\\)$" $part -}}
{{- $values := list -}}
{{- range regexReplaceAll "^[^(]*\\(([^)]*)\\)$" $part "${1}" | splitList "," }}{{ $values = append $values (trim .) }}{{ end -}}
{{- $operator := ternary "NotIn" "In" (regexMatch "\\snotin\\s*\\(" $part) -}}
{{- $all = append $all (dict "key" $key "operator" $operator "values" $values) -}}
{{- else if contains "=" $part -}}
{{- $value := regexReplaceAll "^[^=]*=+" $part "" | trim -}}
{{- $all = append $all (dict "key" $key "operator" (ternary "NotIn" "In" (contains "!=" $part)) "values" (list $value)) -}}
{{- else if and $key (not (regexMatch "[<>]" $part)) -}}
{{- $all = append $all (dict "key" $key "operator" "Exists") -}}
{{- end -}}
{{- end -}}
{{- if $all }}{{ toYaml (dict "matchExpressions" $all) }}{{ end -}}
{{- end -}}

{{/* The classes, as an expression in CEL about `object`. */}}
{{- define "sluice.reviewed.classes" -}}
{{- $flags := include "sluice.flags" . | fromYaml -}}
{{- $names := concat (list (include "sluice.class" .)) .Values.controller.ingressClassResource.aliases .Values.controller.admissionWebhooks.additionalClasses -}}
{{- if include "sluice.isOn" (list $flags "ingress-class-by-name") }}{{ $names = append $names (get $flags "ingress-class") }}{{ end -}}
{{- $texts := list (get $flags "ingress-class") -}}
{{- $classless := include "sluice.isOn" (list $flags "watch-ingress-without-class") -}}
{{- if $classless }}{{ $texts = append $texts "" }}{{ end -}}
{{- $field := "has(object.spec) && has(object.spec.ingressClassName)" -}}
{{- $annotation := "has(object.metadata.annotations) && \"kubernetes.io/ingress.class\" in object.metadata.annotations" -}}
({{ $field }} && object.spec.ingressClassName in {{ $names | uniq | toJson }})
|| ({{ $annotation }} && object.metadata.annotations["kubernetes.io/ingress.class"] in {{ toJson $texts }})
{{- if $classless }}
|| (!({{ $field }}) && !({{ $annotation }}))
{{- end -}}
{{- end -}}
