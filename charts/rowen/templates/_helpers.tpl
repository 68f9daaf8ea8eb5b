{{/* Labels of every object. Call with (dict "root" $ "component" NAME). */}}
{{- define "rowen.labels" -}}
{{ include "rowen.selector" . }}
app.kubernetes.io/part-of: rowen
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version | replace "+" "_" }}
{{- with .root.Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Labels that select a component's pods; they never change. */}}
{{- define "rowen.selector" -}}
app.kubernetes.io/name: rowen
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end }}

{{/* Name of a cluster-scoped object: two releases in one cluster must not share it. */}}
{{- define "rowen.clusterName" -}}
{{ .root.Release.Namespace }}-{{ .root.Release.Name }}-{{ .component }}
{{- end }}

{{/* The restricted Pod Security profile, of a pod and of a container. */}}
{{- define "rowen.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "rowen.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{/* Where a pod may run. Call with the component's values. */}}
{{- define "rowen.placement" -}}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* A component's image. Call with (dict "root" $ "name" NAME). A schema would refuse it without saying why. */}}
{{- define "rowen.image" -}}
{{- $image := index .root.Values.image .name }}
{{- $full := regexMatch `^[^\s@]+(:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}|@sha256:[0-9a-f]{64})$` $image }}
{{- if or (not $full) (hasSuffix ":latest" $image) }}
{{- fail (printf "image.%s: a full reference with a tag other than latest, or a digest, was expected, not %q" .name $image) }}
{{- end }}
{{- $image }}
{{- end }}

{{- define "rowen.pullSecrets" -}}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* Environment that every component gets. */}}
{{- define "rowen.env" -}}
- name: POD_NAMESPACE
  valueFrom:
    fieldRef:
      fieldPath: metadata.namespace
{{- end }}
