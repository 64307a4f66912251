{{/*
Rules for service level objectives: the method of the Site Reliability Workbook with several windows
and burn rates. A burn rate of 1 uses up the error budget in 30 days. The short window ends an alert
soon after its cause.

Long windows are averages of recorded rates of five minutes: raw counters of three days would be
read again at each evaluation.
*/}}
{{- define "sluice.objectives" -}}
{{- $slo := .Values.controller.metrics.prometheusRule.slo -}}
{{- $gateway := printf "controller_namespace=%q,controller_class=%q" (include "sluice.namespace" .) (include "sluice.controllerClass" .) -}}
{{- $labels := "controller_namespace, controller_class" -}}
{{- $subject := "the gateway" -}}
{{- $requests := printf "{%s}" $gateway -}}
{{- if eq $slo.per "ingress" -}}
{{- $labels = "controller_namespace, controller_class, exported_namespace, namespace, ingress" -}}
{{- $subject = "the Ingress {{ $labels.ingress }}" -}}
{{- end -}}
- name: sluice-slo
  rules:
{{- if $slo.availability }}
  - record: sluice:slo_requests:rate5m
    expr: sum by ({{ $labels }}) (rate(nginx_ingress_controller_requests{{ $requests }}[5m]))
  - record: sluice:slo_errors:rate5m
    expr: |-
      sum by ({{ $labels }}) (rate(nginx_ingress_controller_requests{{ printf "{%s,status=~\"5..\"}" $gateway }}[5m]))
        or 0 * sluice:slo_requests:rate5m{{ $requests }}
{{- include "sluice.burnRates" (dict "bad" (printf "sluice:slo_errors:rate5m%s" $requests) "all" (printf "sluice:slo_requests:rate5m%s" $requests)
  "objective" $slo.availability "alert" "SluiceAvailabilityBudget" "subject" $subject "what" "are answered with 5xx") }}
{{- end }}
{{- if $slo.latency }}
  - record: sluice:slo_timed_requests:rate5m
    expr: sum by ({{ $labels }}) (rate(nginx_ingress_controller_request_duration_seconds_count{{ $requests }}[5m]))
  - record: sluice:slo_slow_requests:rate5m
    expr: |-
      sluice:slo_timed_requests:rate5m{{ $requests }}
        - sum by ({{ $labels }}) (rate(nginx_ingress_controller_request_duration_seconds_bucket{{ printf "{%s,le=~\"%s(\\\\.0)?\"}" $gateway ($slo.latencySeconds | replace "." "\\\\.") }}[5m]))
{{- include "sluice.burnRates" (dict "bad" (printf "sluice:slo_slow_requests:rate5m%s" $requests) "all" (printf "sluice:slo_timed_requests:rate5m%s" $requests)
  "objective" $slo.latency "alert" "SluiceLatencyBudget" "subject" $subject "what" (printf "take longer than %s s" $slo.latencySeconds)) }}
{{- end }}
{{- end -}}

{{/*
The two alerts of an objective. `bad` and `all` are recorded rates; `objective` is a percentage.
*/}}
{{- define "sluice.burnRates" -}}
{{- $budget := printf "(1 - %v / 100)" .objective -}}
{{- range list
  (dict "name" "BurnsFast" "severity" "critical" "rates" (list (list "1h" "5m" "14.4") (list "6h" "30m" "6")) "left" "in less than five days")
  (dict "name" "BurnsSlowly" "severity" "warning" "rates" (list (list "1d" "2h" "3") (list "3d" "6h" "1")) "left" "before 30 days have passed") }}
  - alert: {{ $.alert }}{{ .name }}
    expr: |-
      {{- range $index, $rate := .rates }}
      {{- if $index }}
      or
      {{- end }}
      (
        avg_over_time({{ $.bad }}[{{ index $rate 0 }}]) / avg_over_time({{ $.all }}[{{ index $rate 0 }}]) > {{ index $rate 2 }} * {{ $budget }}
        and
        avg_over_time({{ $.bad }}[{{ index $rate 1 }}]) / avg_over_time({{ $.all }}[{{ index $rate 1 }}]) > {{ index $rate 2 }} * {{ $budget }}
      )
      {{- end }}
    labels: {severity: {{ .severity }}}
    annotations:
      summary: "{{ "{{ $value | humanizePercentage }}" }} of the requests of {{ $.subject }} {{ $.what }}"
      description: "The objective is {{ $.objective }} % of 30 days. At this rate the error budget is used up {{ .left }}."
{{- end }}
{{- end -}}
