{{/*
The values of a list that differ from the default that the list has for them, each with its path and
the reason, as JSON. The lists are made from the comments of values.yaml.
*/}}
{{- define "sluice.differing" -}}
{{- $root := .root -}}
{{- $switches := $root.Files.Get "files/switches.json" | fromJsonArray -}}
{{- $found := list -}}
{{- range $root.Files.Get .list | fromJsonArray -}}
{{- $at := $root.Values -}}
{{- $there := true -}}
{{- range splitList "." .path -}}
{{- $there = and $there (kindIs "map" $at) -}}
{{- if $there }}{{ $there = hasKey $at . }}{{ end -}}
{{- if $there }}{{ $at = get $at . }}{{ end -}}
{{- end -}}
{{- if $there -}}
{{- $same := false -}}
{{- if hasKey . "text" -}}
{{- $is_switch := has (trimPrefix "controller.extraArgs." .path) $switches -}}
{{- $same = eq .text (include (ternary "sluice.switch" "sluice.text" $is_switch) $at) -}}
{{- else -}}
{{- $same = or (and (empty $at) (empty .default)) (eq (toJson $at) (toJson .default)) -}}
{{- end -}}
{{- if not $same }}{{ $found = append $found (pick . "path" "reason") }}{{ end -}}
{{- end -}}
{{- end -}}
{{- toJson $found -}}
{{- end -}}

{{/*
Fails for values that cannot be honoured. Every one is named, with the reason; none is ignored
without a note. What the schema can say, the schema says.
*/}}
{{- define "sluice.check" -}}
{{- $wrong := list -}}
{{- range include "sluice.differing" (dict "root" . "list" "files/refused.json") | fromJsonArray -}}
{{- $wrong = append $wrong (printf "%s: %s%s" .path .reason (ternary "" "; remove this value" (contains ";" .reason))) -}}
{{- end -}}
{{- with .Values.controller -}}
{{- $names := $.Files.Get "files/names.json" | fromJson -}}
{{- range $name, $value := .config -}}
{{- if not (or (kindIs "invalid" $value) (has $name $names.keys) (has (lower $name) $names.keysOfAnyCase)) -}}
{{- $wrong = append $wrong (printf "controller.config.%s: unknown key; correct or remove it (docs/configmap.md)" $name) -}}
{{- end -}}
{{- end -}}
{{- range $name, $value := .extraArgs -}}
{{- if not (or (kindIs "invalid" $value) (has $name $names.flags)) -}}
{{- $wrong = append $wrong (printf "controller.extraArgs.%s: unknown flag; correct or remove it (docs/flags.md)" $name) -}}
{{- end -}}
{{- end -}}
{{- $image := include "sluice.image" (dict "root" $ "image" .image "tag" "") -}}
{{- if contains "ingress-nginx/controller" $image -}}
{{- $wrong = append $wrong "controller.image: this is the image of ingress-nginx; set controller.image.repository and tag to an image of Sluice" -}}
{{- else if not (or .image.repository .image.registry $.Values.global.image.registry) -}}
{{- $wrong = append $wrong "controller.image.repository: no image of Sluice is published yet; build one with Containerfile, push it to a registry of yours and name it here" -}}
{{- end -}}
{{- if and .image.digest (contains .image.digest ($.Files.Get "files/ingress-nginx-digests.txt")) -}}
{{- $wrong = append $wrong "controller.image.digest: this is the digest of an image of ingress-nginx; set it to that of an image of Sluice, or to \"\", and controller.image.tag to a tag of Sluice" -}}
{{- end -}}
{{- if and .autoscaling.enabled .keda.enabled -}}
{{- $wrong = append $wrong "controller.keda.enabled: it cannot be combined with controller.autoscaling.enabled; choose one" -}}
{{- end -}}
{{- if and (eq .kind "DaemonSet") (or .autoscaling.enabled .keda.enabled) -}}
{{- $wrong = append $wrong "controller.kind: a DaemonSet cannot be scaled; set Deployment, or switch autoscaling and keda off" -}}
{{- end -}}
{{- if and .keda.enabled (empty .keda.triggers) -}}
{{- $wrong = append $wrong "controller.keda.triggers: a ScaledObject needs at least one trigger" -}}
{{- end -}}
{{- if and .scope.enabled .scope.namespaceSelector -}}
{{- $wrong = append $wrong "controller.scope.namespaceSelector: it is for scope.enabled=false; remove one of them" -}}
{{- end -}}
{{- if and $.Values.rbac.scope (not .scope.enabled) -}}
{{- $wrong = append $wrong "rbac.scope: a gateway without rights to the cluster serves one namespace; set controller.scope.enabled=true" -}}
{{- end -}}
{{- if and .hostPort.enabled .hostNetwork -}}
{{- $differs := false -}}
{{- range include "sluice.containerPorts" $ | fromJsonArray }}{{ $differs = or $differs (ne .hostPort .containerPort) }}{{ end -}}
{{- if $differs -}}
{{- $wrong = append $wrong "controller.hostPort.ports: with hostNetwork they are those of controller.containerPort; set both alike" -}}
{{- end -}}
{{- end -}}
{{- if and (eq (include "sluice.lowHostPort" $) "true") (ne (include "sluice.user" $) "0") -}}
{{- $field := ternary "containerSecurityContext" "image.runAsUser" (not (empty .containerSecurityContext)) -}}
{{- $wrong = append $wrong (printf "controller.%s: on the host's network user %s cannot listen on a port below 1024; remove this value, or set controller.containerPort and the other ports of the Pods to ports from 1024 on" $field (include "sluice.user" $)) -}}
{{- end -}}
{{- if and .service.enabled .service.internal.enabled (empty .service.internal.annotations) -}}
{{- $wrong = append $wrong "controller.service.internal.annotations: without annotations that keep it internal, its load balancer may be public; set those of your provider, or controller.service.internal.enabled=false, which ingress-nginx does in this case" -}}
{{- end -}}
{{- if and .metrics.enabled .metrics.serviceMonitor.enabled (not .metrics.service.enabled) -}}
{{- $wrong = append $wrong "controller.metrics.serviceMonitor.enabled: a ServiceMonitor needs the Service of metrics; set controller.metrics.service.enabled=true" -}}
{{- end -}}
{{- if ne (dir .admissionWebhooks.certificate) (dir .admissionWebhooks.key) -}}
{{- $wrong = append $wrong "controller.admissionWebhooks.key: it has to be in the folder of controller.admissionWebhooks.certificate, where their Secret is mounted" -}}
{{- end -}}
{{- if and .ingressClassResource.aliases (has (include "sluice.class" $) .ingressClassResource.aliases) -}}
{{- $wrong = append $wrong "controller.ingressClassResource.aliases: it has the name of the IngressClass itself; remove it there" -}}
{{- end -}}
{{- end -}}
{{- if .Values.replicaLimits.enabled -}}
{{- $watched := include "sluice.watchedNamespace" . -}}
{{- if and $watched (ne $watched (include "sluice.namespace" .)) -}}
{{- $wrong = append $wrong "replicaLimits.enabled: the gateway watches another namespace only, and does not see its own replicas; install it in that namespace, or let it watch all" -}}
{{- end -}}
{{- end -}}
{{- with .Values.waf -}}
{{- if .enabled -}}
{{- if not (semverCompare ">=1.29.0-0" $.Capabilities.KubeVersion.Version) -}}
{{- $wrong = append $wrong "waf.enabled: the agent runs in a sidecar container, which Kubernetes has from version 1.29 on; run the agent elsewhere and name it in controller.extraArgs.waf-agent" -}}
{{- end -}}
{{- if not (or .image.repository .image.registry $.Values.controller.image.registry $.Values.global.image.registry) -}}
{{- $wrong = append $wrong "waf.image.repository: no image of the agent is published yet; build one with waf-agent/Containerfile, push it to a registry of yours and name it here" -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- $wrong = concat $wrong (include "sluice.refusedCommands" . | fromJsonArray) -}}
{{- $wrong = concat $wrong (include "sluice.refusedUpgrade" . | fromJsonArray) -}}
{{- $wrong = concat $wrong (include "sluice.refusedSelectors" . | fromJsonArray) -}}
{{- if $wrong -}}
{{- fail (printf "\n\nSluice does not support these values:\n  - %s\n" (join "\n  - " $wrong)) -}}
{{- end -}}
{{- end -}}
