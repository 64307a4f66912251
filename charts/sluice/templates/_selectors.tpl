{{/*
Selectors for Pods of ingress-nginx in the values, as a JSON list of messages. Values files of its
chart often contain its name instead of a template; without it, Pods would not be spread, and
nothing would report that.
*/}}
{{- define "sluice.refusedSelectors" -}}
{{- $root := . -}}
{{- $name := include "sluice.name" . -}}
{{- $wrong := list -}}
{{- range $part := list "controller" "defaultBackend" -}}
{{- $values := get $root.Values $part -}}
{{- if or (eq $part "controller") $values.enabled -}}
{{- $affinity := tpl (toYaml $values.affinity) $root | fromYaml -}}
{{- $given := dict
      "affinity" (list (get $affinity "podAffinity") (get $affinity "podAntiAffinity"))
      "topologySpreadConstraints" (tpl (toYaml $values.topologySpreadConstraints) $root | fromYamlArray) -}}
{{- range $field, $value := $given -}}
{{- $is_foreign := false -}}
{{- range include "sluice.labelSelectors" $value | fromJsonArray -}}
{{- $names := include "sluice.selected" (list . "app.kubernetes.io/name") | fromJsonArray -}}
{{- $releases := include "sluice.selected" (list . "app.kubernetes.io/instance") | fromJsonArray -}}
{{- if and (has "ingress-nginx" $names) (not (has $name $names)) (or (empty $releases) (has $root.Release.Name $releases)) -}}
{{- $is_foreign = true -}}
{{- end -}}
{{- end -}}
{{- if $is_foreign -}}
{{- $wrong = append $wrong (printf "%s.%s: it selects app.kubernetes.io/name=ingress-nginx, which the Pods of this release do not have; write '{{ include \"ingress-nginx.name\" . }}' there, or set nameOverride=ingress-nginx in a new release. For Pods of another release, also select its app.kubernetes.io/instance" $part $field) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $wrong -}}
{{- end -}}

{{/* The label selectors within a value, at any depth, as a JSON list. */}}
{{- define "sluice.labelSelectors" -}}
{{- $found := list -}}
{{- if kindIs "slice" . -}}
{{- range . }}{{ $found = concat $found (include "sluice.labelSelectors" . | fromJsonArray) }}{{ end -}}
{{- else if kindIs "map" . -}}
{{- range $key, $value := . -}}
{{- if eq $key "labelSelector" -}}
{{- $found = append $found $value -}}
{{- else -}}
{{- $found = concat $found (include "sluice.labelSelectors" $value | fromJsonArray) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}

{{/*
The values of a label that a selector selects, as a JSON list: `list SELECTOR LABEL`. Empty if it
selects none by name.
*/}}
{{- define "sluice.selected" -}}
{{- $selector := index . 0 | default dict -}}
{{- $label := index . 1 -}}
{{- $found := list -}}
{{- with $selector.matchLabels }}{{ with get . $label }}{{ $found = append $found . }}{{ end }}{{ end -}}
{{- range $selector.matchExpressions -}}
{{- if and (eq .key $label) (eq .operator "In") }}{{ $found = concat $found .values }}{{ end -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}
