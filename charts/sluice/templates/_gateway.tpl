{{/* The Pods of the gateway. */}}

{{/*
The ports of TCP and UDP services, as a map from transport protocol to a map from port to its name.
*/}}
{{- define "sluice.streams" -}}
{{- $root := . -}}
{{- range $protocol := list "tcp" "udp" }}
{{ $protocol }}:
{{- range $port, $_ := get $root.Values $protocol }}
  {{ $port | quote }}: {{ printf "%s%s-%s" (ternary (printf "%s-" $root.Values.portNamePrefix) "" (ne $root.Values.portNamePrefix "")) $port $protocol }}
{{- else }} {}
{{- end }}
{{- end }}
{{- end -}}

{{/* The ConfigMap of TCP or UDP services. */}}
{{- define "sluice.streamsName" -}}
{{- printf "%s-%s" (include "sluice.fullname" .root) .protocol | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* The flags, as a map: what extraArgs names replaces what the chart would set. */}}
{{- define "sluice.flags" -}}
{{- $flags := dict
      "controller-class" (include "sluice.controllerClass" .)
      "ingress-class" (include "sluice.annotationClass" .)
      "configmap" (printf "%s/%s" (default "$(POD_NAMESPACE)" .Values.controller.configMapNamespace) (include "sluice.controller" .))
      "election-id" (include "sluice.electionID" .)
      "healthz-port" .Values.controller.metrics.port
      "body-temp-path" "/var/lib/sluice/bodies"
      "shutdown-grace-period" .Values.controller.shutdownGracePeriod -}}
{{- with .Values.controller -}}
{{- with .containerPort.http }}{{ $_ := set $flags "http-port" . }}{{ end -}}
{{- /* With TLS at the load balancer, both may be the port of HTTP. */ -}}
{{- if and .containerPort.https (ne (.containerPort.https | int) (.containerPort.http | int)) -}}
{{- $_ := set $flags "https-port" .containerPort.https -}}
{{- end -}}
{{- if .snapshot.enabled -}}
{{- $_ := set $flags "snapshot-file" "/var/lib/sluice/snapshot/snapshot" -}}
{{- $_ := set $flags "snapshot-max-age" .snapshot.maxAge -}}
{{- end -}}
{{- if .cacheFiles.enabled }}{{ $_ := set $flags "cache-path" .cacheFiles.mountPath }}{{ end -}}
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
{{- if .maxmindLicenseKey }}{{ $_ := set $flags "maxmind-license-key" .maxmindLicenseKey }}{{ end -}}
{{- if .enableTopologyAwareRouting }}{{ $_ := set $flags "enable-topology-aware-routing" "true" }}{{ end -}}
{{- if .disableLeaderElection }}{{ $_ := set $flags "disable-leader-election" "true" }}{{ end -}}
{{- if .electionTTL }}{{ $_ := set $flags "election-ttl" .electionTTL }}{{ end -}}
{{- if .admissionWebhooks.enabled -}}
{{- $_ := set $flags "validating-webhook" (printf ":%d" (.admissionWebhooks.port | int)) -}}
{{- $_ := set $flags "validating-webhook-certificate" .admissionWebhooks.certificate -}}
{{- $_ := set $flags "validating-webhook-key" .admissionWebhooks.key -}}
{{- end -}}
{{- end -}}
{{- range $protocol := list "tcp" "udp" -}}
{{- if get $.Values $protocol -}}
{{- $namespace := default "$(POD_NAMESPACE)" (get $.Values.controller $protocol).configMapNamespace -}}
{{- $_ := set $flags (printf "%s-services-configmap" $protocol) (printf "%s/%s" $namespace (include "sluice.streamsName" (dict "root" $ "protocol" $protocol))) -}}
{{- end -}}
{{- end -}}
{{- if .Values.waf.enabled }}{{ $_ := set $flags "waf-agent" (printf "127.0.0.1:%d" (.Values.waf.port | int)) }}{{ end -}}
{{- if .Values.replicaLimits.enabled -}}
{{- $_ := set $flags "replica-service" (printf "$(POD_NAMESPACE)/%s" (include "sluice.replicas" .)) -}}
{{- $_ := set $flags "replica-secret" (printf "$(POD_NAMESPACE)/%s" (default (include "sluice.replicas" .) .Values.replicaLimits.secretName)) -}}
{{- $_ := set $flags "replica-address" (printf ":%d" (.Values.replicaLimits.port | int)) -}}
{{- end -}}
{{- if .Values.defaultBackend.enabled -}}
{{- $_ := set $flags "default-backend-service" (printf "$(POD_NAMESPACE)/%s" (include "sluice.defaultBackend" .)) -}}
{{- end -}}
{{- if get .Values.controller.extraArgs "publish-status-address" }}{{ $_ := unset $flags "publish-service" }}{{ end -}}
{{- toYaml (mergeOverwrite $flags (.Values.controller.extraArgs | deepCopy)) -}}
{{- end -}}

{{/* The seconds of a time of nginx, such as `1h30m`; empty for any other text. */}}
{{- define "sluice.seconds" -}}
{{- if regexMatch "^([0-9]+(ms|[smhdwMy])? *)+$" . -}}
{{- $units := dict "s" 1 "m" 60 "h" 3600 "d" 86400 "w" 604800 "M" 2592000 "y" 31536000 -}}
{{- $seconds := 0 -}}
{{- range regexFindAll "[0-9]+[a-zA-Z]*" . -1 -}}
{{- $number := regexFind "[0-9]+" . | int64 -}}
{{- $unit := regexFind "[a-zA-Z]+" . | default "s" -}}
{{- $seconds = add $seconds (ternary (div $number 1000) (mul $number (get $units $unit | default 1)) (eq $unit "ms")) -}}
{{- end -}}
{{- $seconds -}}
{{- end -}}
{{- end -}}

{{/*
The value of a switch as `true` or `false`, from any spelling that the program accepts: those of
Go's ParseBool, and none, which means on.
*/}}
{{- define "sluice.switch" -}}
{{- $text := include "sluice.text" . -}}
{{- if has $text (list "" "1" "t" "T" "true" "TRUE" "True") }}true
{{- else if has $text (list "0" "f" "F" "false" "FALSE" "False") }}false
{{- else }}{{ $text }}{{ end -}}
{{- end -}}

{{/* "true" where a switch that is off by default is on: `list FLAGS NAME`. */}}
{{- define "sluice.isOn" -}}
{{- $flags := index . 0 -}}
{{- $name := index . 1 -}}
{{- if hasKey $flags $name -}}
{{- ternary "" "true" (eq (include "sluice.switch" (get $flags $name)) "false") -}}
{{- end -}}
{{- end -}}

{{/* "true" where the zone of the gateway counts. */}}
{{- define "sluice.zoneAware" -}}
{{- include "sluice.isOn" (list (include "sluice.flags" . | fromYaml) "enable-topology-aware-routing") -}}
{{- end -}}

{{/* The only namespace that is served; empty for all. */}}
{{- define "sluice.watchedNamespace" -}}
{{- get (include "sluice.flags" . | fromYaml) "watch-namespace" | default "" | replace "$(POD_NAMESPACE)" (include "sluice.namespace" .) -}}
{{- end -}}

{{/*
The arguments. Only a switch may be without a value: another flag would take the next argument for
its value. Which flags are switches is made from docs/flags.md.
*/}}
{{- define "sluice.arguments" -}}
{{- $switches := .Files.Get "files/switches.json" | fromJsonArray -}}
- serve
{{- range $name, $value := include "sluice.flags" . | fromYaml }}
{{- $text := include "sluice.text" $value }}
- {{ ternary (printf "--%s" $name) (printf "--%s=%s" $name $text) (and (eq $text "") (has $name $switches)) | quote }}
{{- end }}
{{- end -}}

{{/*
A probe. Its defaults follow the values that move what they ask: controller.metrics.port and
healthCheckPath, or their flags.
*/}}
{{- define "sluice.probe" -}}
{{- $flags := include "sluice.flags" .root | fromYaml -}}
{{- $probe := .probe | deepCopy -}}
{{- with $probe.httpGet -}}
{{- if eq (toString .port) "10254" }}{{ $_ := set . "port" (get $flags "healthz-port" | int) }}{{ end -}}
{{- if eq .path "/healthz" }}{{ $_ := set . "path" (get $flags "health-check-path" | default "/healthz") }}{{ end -}}
{{- end -}}
{{- toYaml $probe -}}
{{- end -}}

{{/* The Service whose addresses are written to the status, as `namespace/name`. */}}
{{- define "sluice.publishService" -}}
{{- if .Values.controller.publishService.pathOverride -}}
{{- .Values.controller.publishService.pathOverride -}}
{{- else -}}
{{- printf "$(POD_NAMESPACE)/%s%s" (include "sluice.controller" .) (ternary "" "-internal" .Values.controller.service.external.enabled) -}}
{{- end -}}
{{- end -}}

{{/* The user that the container runs as. */}}
{{- define "sluice.user" -}}
{{- with .Values.controller -}}
{{- if .containerSecurityContext -}}
{{- /* The image names 65532. */ -}}
{{- dig "runAsUser" (dig "runAsUser" 65532 (.podSecurityContext | default dict)) .containerSecurityContext | int64 -}}
{{- else -}}
{{- ternary 0 (.image.runAsUser | int64) (and (eq (include "sluice.lowHostPort" $) "true") (has (.image.runAsUser | int) (list 65532 101))) -}}
{{- end -}}
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
runAsUser: {{ include "sluice.user" . }}
runAsGroup: {{ $image.runAsGroup | int64 }}
allowPrivilegeEscalation: {{ $image.allowPrivilegeEscalation }}
readOnlyRootFilesystem: {{ $image.readOnlyRootFilesystem }}
{{- with $image.seccompProfile }}
seccompProfile: {{ toYaml . | nindent 2 }}
{{- end }}
capabilities:
  drop: [ALL]
{{- if $low }}
  add: [NET_BIND_SERVICE]
{{- end }}
{{- end -}}
{{- end -}}

{{/*
The Pods' security context. Kernel settings come from controller.sysctls and
podSecurityContext.sysctls, the former first. A port below 1024 can be bound by every process in the
Pod's network, so that no capability is needed.
*/}}
{{- define "sluice.podSecurityContext" -}}
{{- with .Values.controller -}}
{{- $context := .podSecurityContext | deepCopy -}}
{{- $all := dict -}}
{{- range $context.sysctls }}{{ $_ := set $all .name .value }}{{ end -}}
{{- range $name, $value := .sysctls }}{{ $_ := set $all $name (include "sluice.text" $value) }}{{ end -}}
{{- if and (not .hostNetwork) (eq (include "sluice.lowPort" $) "true") (not (hasKey $all "net.ipv4.ip_unprivileged_port_start")) -}}
{{- $_ := set $all "net.ipv4.ip_unprivileged_port_start" "0" -}}
{{- end -}}
{{- $sysctls := list -}}
{{- range $name, $value := $all }}{{ $sysctls = append $sysctls (dict "name" $name "value" $value) }}{{ end -}}
{{- with $sysctls }}{{ $_ := set $context "sysctls" . }}{{ end -}}
{{- toYaml $context -}}
{{- end -}}
{{- end -}}

{{/*
The environment: a variable of the operator's replaces one of the chart, because server-side apply
refuses a name that comes twice.
*/}}
{{- define "sluice.environment" -}}
{{- $fields := dict "POD_NAME" "metadata.name" "POD_NAMESPACE" "metadata.namespace" -}}
{{- if include "sluice.zoneAware" . }}{{ $_ := set $fields "NODE_NAME" "spec.nodeName" }}{{ end -}}
{{- range .Values.controller.extraEnvs }}{{ $_ := unset $fields .name }}{{ end -}}
{{- range $name, $path := $fields }}
- {name: {{ $name }}, valueFrom: {fieldRef: {fieldPath: {{ $path }}}}}
{{- end }}
{{- with .Values.controller.extraEnvs }}
{{ toYaml . }}
{{- end }}
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
  {{- with include "sluice.podSecurityContext" . | fromYaml }}
  securityContext: {{ toYaml . | nindent 4 }}
  {{- end }}
  {{- if $controller.shareProcessNamespace }}
  shareProcessNamespace: true
  {{- end }}
  {{- if $controller.hostNetwork }}
  hostNetwork: true
  {{- end }}
  {{- if or $controller.extraInitContainers .Values.waf.enabled }}
  initContainers:
  {{- with $controller.extraInitContainers }}{{ tpl (toYaml .) $ | nindent 2 }}{{ end }}
  {{- if .Values.waf.enabled }}{{ include "sluice.wafAgent" . | nindent 2 }}{{ end }}
  {{- end }}
  containers:
  - name: {{ $controller.containerName }}
    image: {{ include "sluice.image" (dict "root" . "image" $controller.image "tag" .Chart.AppVersion) | quote }}
    imagePullPolicy: {{ $controller.image.pullPolicy }}
    args: {{- include "sluice.arguments" . | nindent 4 }}
    env: {{- include "sluice.environment" . | nindent 4 }}
    ports:
    {{- range include "sluice.containerPorts" . | fromJsonArray }}
    - name: {{ .name }}
      containerPort: {{ .containerPort }}
      {{- with .hostPort }}
      hostPort: {{ . }}
      {{- end }}
    {{- end }}
    {{- range $protocol, $ports := include "sluice.streams" . | fromYaml }}
    {{- range $port, $name := $ports }}
    - name: {{ $name }}
      protocol: {{ upper $protocol }}
      containerPort: {{ $port }}
      {{- if $controller.hostPort.enabled }}
      hostPort: {{ $port }}
      {{- end }}
    {{- end }}
    {{- end }}
    {{- /* Without metrics, a container of the operator may have a port of this name or number. */}}
    {{- if $controller.metrics.enabled }}
    - name: {{ $controller.metrics.portName }}
      containerPort: {{ get (include "sluice.flags" . | fromYaml) "healthz-port" }}
    {{- end }}
    {{- if $controller.admissionWebhooks.enabled }}
    - name: webhook
      containerPort: {{ $controller.admissionWebhooks.port }}
    {{- end }}
    {{- if .Values.replicaLimits.enabled }}
    - name: replicas
      containerPort: {{ .Values.replicaLimits.port }}
    {{- end }}
    {{- range $name := list "livenessProbe" "readinessProbe" "startupProbe" }}
    {{- with get $controller $name }}
    {{ $name }}: {{ include "sluice.probe" (dict "root" $ "probe" .) | nindent 6 }}
    {{- end }}
    {{- end }}
    {{- with $controller.lifecycle }}
    lifecycle: {{ toYaml . | nindent 6 }}
    {{- end }}
    securityContext: {{ include "sluice.securityContext" . | nindent 6 }}
    {{- with $controller.resources }}
    resources: {{ toYaml . | nindent 6 }}
    {{- end }}
    {{- if and $controller.resizePolicy (semverCompare ">=1.33.0-0" .Capabilities.KubeVersion.Version) }}
    resizePolicy: {{ toYaml $controller.resizePolicy | nindent 4 }}
    {{- end }}
    volumeMounts:
    - {name: sluice-bodies, mountPath: /var/lib/sluice/bodies}
    {{- if $controller.snapshot.enabled }}
    - {name: sluice-snapshot, mountPath: /var/lib/sluice/snapshot}
    {{- end }}
    {{- if $controller.cacheFiles.enabled }}
    - {name: sluice-cache, mountPath: {{ $controller.cacheFiles.mountPath }}}
    {{- end }}
    {{- if $controller.admissionWebhooks.enabled }}
    - {name: webhook-cert, mountPath: {{ dir $controller.admissionWebhooks.certificate }}, readOnly: true}
    {{- end }}
    {{- with include "sluice.downloadPath" . }}
    - {name: sluice-geoip, mountPath: {{ . }}}
    {{- end }}
    {{- with $controller.extraVolumeMounts }}{{ toYaml . | nindent 4 }}{{ end }}
  {{- with $controller.extraContainers }}{{ toYaml . | nindent 2 }}{{ end }}
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
  # The names differ from those of the operator's volumes. That of the certificate is as in
  # ingress-nginx.
  volumes:
  - name: sluice-bodies
    emptyDir: {{ include "sluice.emptyDir" $controller.bodyTemp | nindent 6 }}
  {{- if $controller.snapshot.enabled }}
  - name: sluice-snapshot
    emptyDir: {{ include "sluice.emptyDir" $controller.snapshot | nindent 6 }}
  {{- end }}
  {{- if $controller.cacheFiles.enabled }}
  - name: sluice-cache
    {{- with $controller.cacheFiles.volume }}
    {{- toYaml . | nindent 4 }}
    {{- else }}
    emptyDir: {{ include "sluice.emptyDir" $controller.cacheFiles | nindent 6 }}
    {{- end }}
  {{- end }}
  {{- if $controller.admissionWebhooks.enabled }}
  - name: webhook-cert
    # Requests are served without it, whatever becomes of the webhook.
    {{- $secret := include "sluice.webhook" . }}
    {{- if or $controller.admissionWebhooks.certManager.enabled $controller.admissionWebhooks.patch.enabled }}
    secret:
      secretName: {{ $secret }}
      optional: true
      items: {{- include "sluice.webhook.items" . | nindent 6 }}
    {{- else }}
    # The keys of the operator's Secret may also be the names of files, as with ingress-nginx.
    projected:
      sources:
      - secret: {name: {{ $secret }}, optional: true}
      - secret:
          name: {{ $secret }}
          optional: true
          items: {{- include "sluice.webhook.items" . | nindent 10 }}
    {{- end }}
  {{- end }}
  {{- if include "sluice.downloadPath" . }}
  - name: sluice-geoip
    emptyDir: {}
  {{- end }}
  {{- if .Values.waf.enabled }}
  - name: sluice-waf-bodies
    emptyDir: {sizeLimit: {{ .Values.waf.bodyTemp.sizeLimit }}}
  {{- end }}
  {{- with $controller.extraVolumes }}{{ toYaml . | nindent 2 }}{{ end }}
{{- end -}}

{{/* The keys of the webhook's Secret, each with its file. */}}
{{- define "sluice.webhook.items" -}}
{{- with .Values.controller.admissionWebhooks -}}
- {key: tls.crt, path: {{ base .certificate }}}
- {key: tls.key, path: {{ base .key }}}
{{- end -}}
{{- end -}}

{{/*
The folder into which GeoIP2 databases are downloaded, unless a volume of the operator's is there.
*/}}
{{- define "sluice.downloadPath" -}}
{{- $flags := include "sluice.flags" . | fromYaml -}}
{{- if or (get $flags "maxmind-license-key") (get $flags "maxmind-mirror") -}}
{{- $path := default "/etc/ingress-controller/geoip" (get $flags "geoip-path") | clean -}}
{{- $is_mounted := false -}}
{{- range .Values.controller.extraVolumeMounts }}{{ if eq (.mountPath | default "" | clean) $path }}{{ $is_mounted = true }}{{ end }}{{ end -}}
{{- if not $is_mounted }}{{ $path }}{{ end -}}
{{- end -}}
{{- end -}}

{{- define "sluice.emptyDir" -}}
{{- $dir := dict -}}
{{- if .medium }}{{ $_ := set $dir "medium" .medium }}{{ end -}}
{{- if .sizeLimit }}{{ $_ := set $dir "sizeLimit" .sizeLimit }}{{ end -}}
{{- toYaml $dir -}}
{{- end -}}
