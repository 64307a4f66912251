{{/* The Pods of the gateway. */}}

{{/* Whether the gateway listens on a port of the node that an ordinary user cannot bind. */}}
{{- define "sluice.lowHostPort" -}}
{{- with .Values.controller -}}
{{- and .hostNetwork (or (lt (.containerPort.http | int) 1024) (lt (.containerPort.https | int) 1024)) -}}
{{- end -}}
{{- end -}}

{{/* The flags, as a map: what extraArgs names replaces what the chart would set. */}}
{{- define "sluice.flags" -}}
{{- $flags := dict
      "controller-class" (include "sluice.controllerClass" .)
      "ingress-class" (default (include "sluice.class" .) .Values.controller.ingressClass)
      "configmap" (printf "%s/%s" (default "$(POD_NAMESPACE)" .Values.controller.configMapNamespace) (include "sluice.controller" .))
      "election-id" (include "sluice.electionID" .)
      "http-port" .Values.controller.containerPort.http
      "https-port" .Values.controller.containerPort.https
      "healthz-port" .Values.controller.metrics.port
      "body-temp-path" "/var/lib/sluice/bodies"
      "shutdown-grace-period" .Values.controller.shutdownGracePeriod -}}
{{- with .Values.controller -}}
{{- if .snapshot.enabled -}}
{{- $_ := set $flags "snapshot-file" "/var/lib/sluice/snapshot/snapshot" -}}
{{- $_ := set $flags "snapshot-max-age" .snapshot.maxAge -}}
{{- end -}}
{{- if not .enableAnnotationValidations }}{{ $_ := set $flags "enable-annotation-validation" "false" }}{{ end -}}
{{- if and .publishService.enabled .service.enabled (or .publishService.pathOverride .service.external.enabled .service.internal.enabled) -}}
{{- $_ := set $flags "publish-service" (include "sluice.publishService" $) -}}
{{- end -}}
{{- if .scope.enabled -}}
{{- $_ := set $flags "watch-namespace" (default "$(POD_NAMESPACE)" .scope.namespace) -}}
{{- else if .scope.namespaceSelector -}}
{{- $_ := set $flags "watch-namespace-selector" .scope.namespaceSelector -}}
{{- end -}}
{{- if and .reportNodeInternalIp .hostNetwork }}{{ $_ := set $flags "report-node-internal-ip-address" "true" }}{{ end -}}
{{- if .healthCheckHost }}{{ $_ := set $flags "healthz-host" .healthCheckHost }}{{ end -}}
{{- if ne .healthCheckPath "/healthz" }}{{ $_ := set $flags "health-check-path" .healthCheckPath }}{{ end -}}
{{- if or .ingressClassByName $.Values.rbac.scope }}{{ $_ := set $flags "ingress-class-by-name" "true" }}{{ end -}}
{{- if .watchIngressWithoutClass }}{{ $_ := set $flags "watch-ingress-without-class" "true" }}{{ end -}}
{{- if .metrics.enabled }}{{ $_ := set $flags "enable-metrics" "true" }}{{ end -}}
{{- if .enableTopologyAwareRouting }}{{ $_ := set $flags "enable-topology-aware-routing" "true" }}{{ end -}}
{{- if .disableLeaderElection }}{{ $_ := set $flags "disable-leader-election" "true" }}{{ end -}}
{{- if .electionTTL }}{{ $_ := set $flags "election-ttl" .electionTTL }}{{ end -}}
{{- if .admissionWebhooks.enabled -}}
{{- $_ := set $flags "validating-webhook" (printf ":%d" (.admissionWebhooks.port | int)) -}}
{{- $_ := set $flags "validating-webhook-certificate" .admissionWebhooks.certificate -}}
{{- $_ := set $flags "validating-webhook-key" .admissionWebhooks.key -}}
{{- end -}}
{{- end -}}
{{- if .Values.defaultBackend.enabled -}}
{{- $_ := set $flags "default-backend-service" (printf "$(POD_NAMESPACE)/%s" (include "sluice.defaultBackend" .)) -}}
{{- end -}}
{{- if hasKey .Values.controller.extraArgs "publish-status-address" }}{{ $_ := unset $flags "publish-service" }}{{ end -}}
{{- toYaml (mergeOverwrite $flags (.Values.controller.extraArgs | deepCopy)) -}}
{{- end -}}

{{/* Whether the zone of the gateway counts; extraArgs may give the flag without a value. */}}
{{- define "sluice.zoneAware" -}}
{{- $flags := include "sluice.flags" . | fromYaml -}}
{{- if hasKey $flags "enable-topology-aware-routing" -}}
{{- ternary "" "true" (eq (get $flags "enable-topology-aware-routing" | toString) "false") -}}
{{- end -}}
{{- end -}}

{{/* The arguments. A flag without a value is a switch. */}}
{{- define "sluice.arguments" -}}
- serve
{{- range $name, $value := include "sluice.flags" . | fromYaml }}
{{- $text := include "sluice.text" $value }}
- {{ ternary (printf "--%s" $name) (printf "--%s=%s" $name $text) (eq $text "") | quote }}
{{- end }}
{{- end -}}

{{/* The Service whose addresses go into the status, as `namespace/name`. */}}
{{- define "sluice.publishService" -}}
{{- if .Values.controller.publishService.pathOverride -}}
{{- .Values.controller.publishService.pathOverride -}}
{{- else -}}
{{- printf "$(POD_NAMESPACE)/%s%s" (include "sluice.controller" .) (ternary "" "-internal" .Values.controller.service.external.enabled) -}}
{{- end -}}
{{- end -}}

{{/* The container's rights: none. On the host's network, a port below 1024 takes one. */}}
{{- define "sluice.securityContext" -}}
{{- $image := .Values.controller.image -}}
{{- $low := eq (include "sluice.lowHostPort" .) "true" -}}
{{- if .Values.controller.containerSecurityContext -}}
{{- toYaml .Values.controller.containerSecurityContext -}}
{{- else -}}
runAsNonRoot: {{ and $image.runAsNonRoot (not $low) }}
runAsUser: {{ ternary 0 ($image.runAsUser | int64) $low }}
runAsGroup: {{ $image.runAsGroup | int64 }}
allowPrivilegeEscalation: {{ $image.allowPrivilegeEscalation }}
readOnlyRootFilesystem: {{ $image.readOnlyRootFilesystem }}
seccompProfile: {{ toYaml $image.seccompProfile | nindent 2 }}
capabilities:
  drop: [ALL]
{{- if $low }}
  add: [NET_BIND_SERVICE]
{{- end }}
{{- end -}}
{{- end -}}

{{/* The Pods' kernel settings. A port below 1024 can be bound by everybody in the Pod's network, so that no right is needed. */}}
{{- define "sluice.sysctls" -}}
{{- $all := .Values.controller.sysctls | deepCopy -}}
{{- with .Values.controller -}}
{{- if and (not .hostNetwork) (or (lt (.containerPort.http | int) 1024) (lt (.containerPort.https | int) 1024)) (not (hasKey $all "net.ipv4.ip_unprivileged_port_start")) -}}
{{- $_ := set $all "net.ipv4.ip_unprivileged_port_start" "0" -}}
{{- end -}}
{{- end -}}
{{- range $name, $value := $all }}
- {name: {{ $name | quote }}, value: {{ include "sluice.text" $value | quote }}}
{{- end -}}
{{- end -}}

{{- define "sluice.pod" -}}
{{- $controller := .Values.controller -}}
metadata:
  {{- with $controller.podAnnotations }}
  annotations: {{- include "sluice.texts" . | nindent 4 }}
  {{- end }}
  labels: {{- include "sluice.labels" (dict "root" . "component" "controller" "more" (list $controller.podLabels)) | nindent 4 }}
spec:
  serviceAccountName: {{ include "sluice.account" . }}
  automountServiceAccountToken: {{ .Values.serviceAccount.automountServiceAccountToken }}
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ $controller.terminationGracePeriodSeconds }}
  dnsPolicy: {{ $controller.dnsPolicy }}
  {{- with $controller.dnsConfig }}
  dnsConfig: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- with $controller.hostAliases }}
  hostAliases: {{ tpl (toYaml .) $ | nindent 4 }}
  {{- end }}
  {{- with $controller.hostname }}
  hostname: {{ . | quote }}
  {{- end }}
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- with $controller.priorityClassName }}
  priorityClassName: {{ . | quote }}
  {{- end }}
  {{- with $controller.runtimeClassName }}
  runtimeClassName: {{ . | quote }}
  {{- end }}
  {{- $sysctls := include "sluice.sysctls" . }}
  {{- if or $controller.podSecurityContext $sysctls }}
  securityContext:
    {{- with $controller.podSecurityContext }}{{ toYaml . | nindent 4 }}{{ end }}
    {{- with $sysctls }}
    sysctls: {{- . | nindent 6 }}
    {{- end }}
  {{- end }}
  {{- if $controller.shareProcessNamespace }}
  shareProcessNamespace: true
  {{- end }}
  {{- if $controller.hostNetwork }}
  hostNetwork: true
  {{- end }}
  {{- with $controller.extraInitContainers }}
  initContainers: {{ tpl (toYaml .) $ | nindent 4 }}
  {{- end }}
  containers:
  - name: {{ $controller.containerName }}
    image: {{ include "sluice.image" (dict "root" . "image" $controller.image "tag" .Chart.AppVersion) | quote }}
    imagePullPolicy: {{ $controller.image.pullPolicy }}
    args: {{- include "sluice.arguments" . | nindent 4 }}
    env:
    - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: POD_NAMESPACE, valueFrom: {fieldRef: {fieldPath: metadata.namespace}}}
    {{- if include "sluice.zoneAware" . }}
    - {name: NODE_NAME, valueFrom: {fieldRef: {fieldPath: spec.nodeName}}}
    {{- end }}
    {{- with $controller.extraEnvs }}{{ toYaml . | nindent 4 }}{{ end }}
    ports:
    - name: http
      containerPort: {{ $controller.containerPort.http }}
      {{- if $controller.hostPort.enabled }}
      hostPort: {{ $controller.hostPort.ports.http }}
      {{- end }}
    - name: https
      containerPort: {{ $controller.containerPort.https }}
      {{- if $controller.hostPort.enabled }}
      hostPort: {{ $controller.hostPort.ports.https }}
      {{- end }}
    - name: {{ $controller.metrics.portName }}
      containerPort: {{ $controller.metrics.port }}
    {{- if $controller.admissionWebhooks.enabled }}
    - name: webhook
      containerPort: {{ $controller.admissionWebhooks.port }}
    {{- end }}
    livenessProbe: {{ toYaml $controller.livenessProbe | nindent 6 }}
    readinessProbe: {{ toYaml $controller.readinessProbe | nindent 6 }}
    {{- with $controller.startupProbe }}
    startupProbe: {{ toYaml . | nindent 6 }}
    {{- end }}
    {{- with $controller.lifecycle }}
    lifecycle: {{ toYaml . | nindent 6 }}
    {{- end }}
    securityContext: {{ include "sluice.securityContext" . | nindent 6 }}
    {{- with $controller.resources }}
    resources: {{ toYaml . | nindent 6 }}
    {{- end }}
    {{- with $controller.resizePolicy }}
    resizePolicy: {{ toYaml . | nindent 4 }}
    {{- end }}
    volumeMounts:
    - {name: bodies, mountPath: /var/lib/sluice/bodies}
    {{- if $controller.snapshot.enabled }}
    - {name: snapshot, mountPath: /var/lib/sluice/snapshot}
    {{- end }}
    {{- if $controller.admissionWebhooks.enabled }}
    - {name: webhook-certificate, mountPath: {{ dir $controller.admissionWebhooks.certificate }}, readOnly: true}
    {{- end }}
    {{- with $controller.extraVolumeMounts }}{{ toYaml . | nindent 4 }}{{ end }}
  {{- with $controller.extraContainers }}{{ tpl (toYaml .) $ | nindent 2 }}{{ end }}
  {{- with $controller.nodeSelector }}
  nodeSelector: {{- include "sluice.texts" . | nindent 4 }}
  {{- end }}
  {{- with $controller.tolerations }}
  tolerations: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- with $controller.affinity }}
  affinity: {{ tpl (toYaml .) $ | nindent 4 }}
  {{- end }}
  {{- with $controller.topologySpreadConstraints }}
  topologySpreadConstraints: {{ tpl (toYaml .) $ | nindent 4 }}
  {{- end }}
  volumes:
  - name: bodies
    emptyDir: {{ include "sluice.emptyDir" $controller.bodyTemp | nindent 6 }}
  {{- if $controller.snapshot.enabled }}
  - name: snapshot
    emptyDir: {{ include "sluice.emptyDir" $controller.snapshot | nindent 6 }}
  {{- end }}
  {{- if $controller.admissionWebhooks.enabled }}
  - name: webhook-certificate
    # Requests are served without it, whatever becomes of the webhook.
    secret:
      secretName: {{ include "sluice.webhook" . }}
      optional: true
      items:
      - {key: tls.crt, path: {{ base $controller.admissionWebhooks.certificate }}}
      - {key: tls.key, path: {{ base $controller.admissionWebhooks.key }}}
  {{- end }}
  {{- with $controller.extraVolumes }}{{ toYaml . | nindent 2 }}{{ end }}
{{- end -}}

{{- define "sluice.emptyDir" -}}
{{- $dir := dict -}}
{{- if .medium }}{{ $_ := set $dir "medium" .medium }}{{ end -}}
{{- if .sizeLimit }}{{ $_ := set $dir "sizeLimit" .sizeLimit }}{{ end -}}
{{- toYaml $dir -}}
{{- end -}}
