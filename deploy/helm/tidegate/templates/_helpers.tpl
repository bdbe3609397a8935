{{- define "tidegate.labels" -}}
{{ include "tidegate.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "tidegate.selector" -}}
app.kubernetes.io/name: tidegate
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "tidegate.name" -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}-gateway
{{- end }}

{{- define "tidegate.image" -}}
{{- $image := index .root.Values.images .part -}}
{{ .root.Values.images.registry }}/{{ $image.repository }}
{{- if $image.digest }}@{{ $image.digest }}{{ else }}:{{ $image.tag | default .root.Chart.AppVersion }}{{ end }}
{{- end }}

{{/* The settings as the gateway reads them: what the chart says stands above what was given. */}}
{{- define "tidegate.settings" -}}
{{- $fixed := dict
  "listen" (dict "host" "0.0.0.0" "port" 8080)
  "admin" (dict "host" "0.0.0.0" "port" 8081)
  "auth" (dict "required" true)
  "policy" "/etc/tidegate/policy.yaml" -}}
{{- $settings := mergeOverwrite (deepCopy .Values.settings) $fixed -}}
{{- if not .Values.edge.enabled }}{{ $_ := set $settings.targets "edge" nil }}{{ end -}}
{{ toYaml $settings }}
{{- end }}

{{- define "tidegate.drain" -}}
{{ ceil (dig "timeouts" "drain_s" 30 .Values.settings) }}
{{- end }}

{{/* What every container may do: write to its volumes, and nothing of the node. */}}
{{- define "tidegate.container" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
env:
  - {name: TIDEGATE_SETTINGS, value: /etc/tidegate/tidegate.yaml}
  - {name: TIDEGATE_STATE_DIR, value: /var/lib/tidegate}
  {{- if .Values.caBundle.configMap }}
  - {name: SSL_CERT_FILE, value: /etc/tidegate-ca/{{ .Values.caBundle.key }}}
  {{- end }}
volumeMounts:
  - {name: settings, mountPath: /etc/tidegate, readOnly: true}
  - {name: state, mountPath: /var/lib/tidegate}
  - {name: tmp, mountPath: /tmp}
  {{- if .Values.edge.enabled }}
  - {name: models, mountPath: /var/lib/tidegate/models}
  {{- end }}
  {{- if .Values.caBundle.configMap }}
  - {name: ca, mountPath: /etc/tidegate-ca, readOnly: true}
  {{- end }}
  {{- range .Values.secrets }}
  - {name: secret-{{ . }}, mountPath: /run/secrets/tidegate/{{ . }}, readOnly: true}
  {{- end }}
{{- end }}
