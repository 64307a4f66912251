{{/*
The agent of the web application firewall, as a container that starts before the gateway and ends
after it. Only the gateway reaches it, on the loopback address. Bodies of requests that exceed its
buffer go to /tmp.
*/}}
{{- define "sluice.wafAgent" -}}
{{- $waf := .Values.waf -}}
{{- $listen := printf "--listen=127.0.0.1:%d" ($waf.port | int) -}}
- name: waf-agent
  image: {{ include "sluice.image" (dict "root" . "image" $waf.image "registry" .Values.controller.image.registry "tag" .Chart.AppVersion) | quote }}
  imagePullPolicy: {{ $waf.image.pullPolicy }}
  restartPolicy: Always
  args:
  - {{ $listen | quote }}
  - {{ printf "--max-configurations=%d" ($waf.maxConfigurations | int) | quote }}
  {{- range $name := list "startupProbe" "livenessProbe" }}
  {{ $name }}:
    exec: {command: [/waf-agent, --probe, {{ $listen | quote }}]}
    periodSeconds: {{ ternary 1 10 (eq $name "startupProbe") }}
    timeoutSeconds: 5
    failureThreshold: {{ ternary 30 3 (eq $name "startupProbe") }}
  {{- end }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    allowPrivilegeEscalation: false
    readOnlyRootFilesystem: true
    seccompProfile: {type: RuntimeDefault}
    capabilities: {drop: [ALL]}
  {{- with $waf.resources }}
  resources: {{ toYaml . | nindent 4 }}
  {{- end }}
  volumeMounts:
  - {name: sluice-waf-bodies, mountPath: /tmp}
{{- end -}}
