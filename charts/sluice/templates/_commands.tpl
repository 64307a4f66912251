{{/*
Commands of hooks and probes that the image cannot run, as a JSON list of messages. The image has
no shell. A hook that needs one fails at once, so a Pod would end without the delay that the hook is
for, and requests would be lost at each rollout.
*/}}
{{- define "sluice.refusedCommands" -}}
{{- $controller := .Values.controller -}}
{{- $handlers := dict -}}
{{- range $name := list "preStop" "postStart" -}}
{{- $_ := set $handlers (printf "lifecycle.%s" $name) (get ($controller.lifecycle | default dict) $name) -}}
{{- end -}}
{{- range $name := list "livenessProbe" "readinessProbe" "startupProbe" }}{{ $_ := set $handlers $name (get $controller $name) }}{{ end -}}
{{- $wrong := list -}}
{{- range $path, $handler := $handlers -}}
{{- $program := "" -}}
{{- with $handler }}{{ with .exec }}{{ with .command }}{{ $program = first . | toString }}{{ end }}{{ end }}{{ end -}}
{{- $is_there := has (clean $program) (list "." "/sluice" "/wait-shutdown") -}}
{{- range $controller.extraVolumeMounts -}}
{{- $mount := .mountPath | default "" | clean -}}
{{- $is_there = or $is_there (eq (clean $program) $mount) (hasPrefix (printf "%s/" $mount) (clean $program)) -}}
{{- end -}}
{{- if not $is_there -}}
{{- $remedy := "mount the program with controller.extraVolumeMounts, or use a handler without a command, such as httpGet" -}}
{{- if eq $path "lifecycle.preStop" -}}
{{- $remedy = "for a delay before the Pod ends, set controller.shutdownGracePeriod, or lifecycle.preStop.sleep, and remove the command" -}}
{{- end -}}
{{- $wrong = append $wrong (printf "controller.%s.exec.command: the image has no program %s, and no shell; %s" $path $program $remedy) -}}
{{- end -}}
{{- end -}}
{{- toJson $wrong -}}
{{- end -}}
