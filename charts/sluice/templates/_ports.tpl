{{/* Ports that the gateway listens on. */}}

{{/* "true" where the gateway listens on a port that an ordinary user cannot bind. */}}
{{- define "sluice.lowPort" -}}
{{- $flags := include "sluice.flags" . | fromYaml -}}
{{- $own := list (get $flags "http-port" | default 80) (get $flags "https-port" | default 443) (get $flags "healthz-port" | default 10254) -}}
{{- $ports := concat $own (values .Values.controller.containerPort) (keys .Values.tcp) (keys .Values.udp) -}}
{{- range $flag := list "validating-webhook" "replica-address" "admin-address" -}}
{{- with get $flags $flag }}{{ $ports = append $ports (toString . | splitList ":" | last) }}{{ end -}}
{{- end -}}
{{- $low := false -}}
{{- range $ports }}{{ $low = or $low (lt (int .) 1024) }}{{ end -}}
{{- ternary "true" "" $low -}}
{{- end -}}

{{/* Whether that is a port of the node. */}}
{{- define "sluice.lowHostPort" -}}
{{- and .Values.controller.hostNetwork (eq (include "sluice.lowPort" .) "true") -}}
{{- end -}}

{{/*
The entries of controller.containerPort as ports of the container, as a JSON list. Of entries that
differ only in their names, the first one counts: server-side apply refuses a port that comes twice.
*/}}
{{- define "sluice.containerPorts" -}}
{{- $controller := .Values.controller -}}
{{- $ports := list -}}
{{- $known := dict -}}
{{- $names := keys $controller.containerPort | sortAlpha -}}
{{- range $name := concat (list "http" "https") (without $names "http" "https") -}}
{{- if has $name $names -}}
{{- $port := dict "containerPort" (get $controller.containerPort $name) -}}
{{- if $controller.hostPort.enabled -}}
{{- $_ := set $port "hostPort" (get $controller.hostPort.ports $name | default $port.containerPort) -}}
{{- end -}}
{{- if not (hasKey $known (toJson $port)) -}}
{{- $_ := set $known (toJson $port) true -}}
{{- $ports = append $ports (set $port "name" $name) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- toJson $ports -}}
{{- end -}}

{{/*
The port of the Pods for a Service, by name or number: `list ROOT PORT`. An entry that
"sluice.containerPorts" leaves out has no name.
*/}}
{{- define "sluice.targetPort" -}}
{{- $root := index . 0 -}}
{{- $target := index . 1 | toString -}}
{{- $named := list -}}
{{- range include "sluice.containerPorts" $root | fromJsonArray }}{{ $named = append $named .name }}{{ end -}}
{{- $numbers := $root.Values.controller.containerPort -}}
{{- ternary (get $numbers $target) $target (and (hasKey $numbers $target) (not (has $target $named))) -}}
{{- end -}}
