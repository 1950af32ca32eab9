{{- define "eventhook.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "eventhook.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 40 | trimSuffix "-" -}}
{{- else if contains (include "eventhook.name" .) .Release.Name -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "eventhook.name" .) | trunc 40 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "eventhook.selector" -}}
app.kubernetes.io/name: {{ include "eventhook.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "eventhook.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{ include "eventhook.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "eventhook.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{- define "eventhook.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ .Values.serviceAccount.name | default (include "eventhook.fullname" .) }}
{{- else -}}
{{ .Values.serviceAccount.name | default "default" }}
{{- end -}}
{{- end -}}

{{/* The name of the objects of a role: that of the release for all roles together. */}}
{{- define "eventhook.roleName" -}}
{{- $name := include "eventhook.fullname" .root -}}
{{- if eq .role "all" }}{{ $name }}{{ else }}{{ printf "%s-%s" $name .role }}{{ end -}}
{{- end -}}

{{/* The values of a role, over the defaults. */}}
{{- define "eventhook.role" -}}
{{- toYaml (mergeOverwrite (deepCopy .root.Values.roleDefaults) (index .root.Values.roles .role)) -}}
{{- end -}}

{{/* Fails unless every role runs. */}}
{{- define "eventhook.checkRoles" -}}
{{- if not .Values.roles.all.enabled -}}
{{- range list "ingest" "api" "route" "dispatch" -}}
{{- if not (index $.Values.roles .).enabled -}}
{{- fail (printf "roles: no deployment has the role %s: enable roles.all or roles.%s" . .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "eventhook.servicePort" -}}
{{- .Values.service.port | default (ternary 443 80 (not (empty .Values.tls.existingSecret))) -}}
{{- end -}}

{{/* The job of the metrics: one for each installation, with the name that the alerts select. */}}
{{- define "eventhook.job" -}}
{{- $name := include "eventhook.fullname" . -}}
{{- printf "%s/%s" .Release.Namespace (ternary $name (printf "%s-eventhook" $name) (contains "eventhook" $name)) -}}
{{- end -}}

{{- define "eventhook.scheme" -}}
{{- if .Values.tls.existingSecret }}HTTPS{{ else }}HTTP{{ end -}}
{{- end -}}

{{- define "eventhook.secretEnv" -}}
- name: {{ .name }}
  valueFrom:
    secretKeyRef:
      name: {{ .secret }}
      key: {{ .key }}
{{- end -}}

{{/* The variables with which a program opens the database. */}}
{{- define "eventhook.databaseEnv" -}}
{{- $secret := required "database.existingSecret is required: the name of a secret with the key DATABASE_URL" .Values.database.existingSecret -}}
{{ include "eventhook.secretEnv" (dict "name" "DATABASE_URL" "secret" $secret "key" .Values.database.urlKey) }}
{{- with .Values.database.directUrlKey }}
{{ include "eventhook.secretEnv" (dict "name" "DATABASE_DIRECT_URL" "secret" $secret "key" .) }}
{{- end }}
{{- end -}}

{{- define "eventhook.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end -}}

{{- define "eventhook.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}

{{/* The rules of connections to DNS, the database and receivers. */}}
{{- define "eventhook.egress" -}}
{{- $policy := .Values.networkPolicy -}}
- ports: [{port: 53, protocol: UDP}, {port: 53, protocol: TCP}]
- ports:
    {{- range $policy.databasePorts }}
    - {port: {{ . }}, protocol: TCP}
    {{- end }}
- to:
    - ipBlock:
        cidr: 0.0.0.0/0
        {{- with $policy.blockedCIDRs }}
        except:
          {{- toYaml . | nindent 10 }}
        {{- end }}
    - ipBlock: {cidr: "::/0", except: ["fc00::/7", "fe80::/10"]}
{{- with $policy.extraEgress }}
{{ toYaml . }}
{{- end }}
{{- end -}}
