{{- define "sluice.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 53 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 53 | trimSuffix "-" }}{{ end }}
{{- end }}

{{- define "sluice.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "sluice.labels" -}}
{{ include "sluice.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{- end }}

{{- /* The names of the fronts that are enabled, in order, with a space between. */}}
{{- define "sluice.fronts" -}}
{{- $names := list -}}
{{- range $name := list "proxy" "api" "check" "ext_authz" "rls" "resp" "tcp" -}}
{{- with index $.Values.fronts $name }}{{ if .enabled }}{{ $names = append $names $name }}{{ end }}{{ end -}}
{{- end -}}
{{- join " " $names | required "no front is enabled; set fronts.proxy.enabled, or that of another" -}}
{{- end }}

{{- /* The name of the service and of the port of a front: of (list . FRONT). */}}
{{- define "sluice.service" -}}
{{- include "sluice.name" (first .) }}{{ if ne (last .) "proxy" }}-{{ last . | replace "_" "-" }}{{ end -}}
{{- end }}

{{- define "sluice.port" -}}
{{- if eq . "proxy" }}http{{ else }}{{ replace "_" "-" . }}{{ end -}}
{{- end }}

{{- /* The listeners, as JSON. */}}
{{- define "sluice.listen" -}}
{{- $listen := list -}}
{{- range $name := splitList " " (include "sluice.fronts" .) -}}
{{- $front := index $.Values.fronts $name -}}
{{- $l := dict "address" (printf "0.0.0.0:%d" (int $front.port)) "serve" $name -}}
{{- if has $name (list "api" "check" "ext_authz" "rls" "resp") }}{{ $_ := set $l "insecure" true }}{{ end -}}
{{- if has $name (list "api" "resp") -}}
{{- $_ := required (printf "fronts.%s needs tokens.secret, a secret with the file of its tokens; create one: kubectl create secret generic sluice-tokens --from-file=tokens.json" $name) $.Values.tokens.secret -}}
{{- $_ := set $l "tokens_file" "/etc/sluice-tokens/tokens.json" -}}
{{- end -}}
{{- if eq $name "rls" -}}
{{- if not $.Values.limits }}{{ fail "fronts.rls needs limits; set limits: {FILE.yaml: {domain: DOMAIN, descriptors: [...]}}" }}{{ end -}}
{{- $_ := set $l "rls" (dict "files" "/etc/sluice-limits") -}}
{{- end -}}
{{- if and (eq $name "tcp") (not (dig "upstream" "" $front.listen)) }}{{ fail "fronts.tcp needs an upstream; set fronts.tcp.listen.upstream to HOST:PORT" }}{{ end -}}
{{- if $front.tls }}{{ $_ := set $l "tls" (dict "cert" (printf "/etc/sluice-tls/%s/tls.crt" $name) "key" (printf "/etc/sluice-tls/%s/tls.key" $name)) }}{{ end -}}
{{- $listen = append $listen (mergeOverwrite $l (deepCopy $front.listen)) -}}
{{- end -}}
{{- toJson $listen -}}
{{- end }}
