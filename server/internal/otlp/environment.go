// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/sluicegate/sluice/internal/regular"
	"github.com/sluicegate/sluice/internal/wire"
)

// A signal is a kind of data that is exported, as the names of variables have it.
type signal string

const (
	traces  signal = "TRACES"
	metrics signal = "METRICS"
)

const general = "OTEL_EXPORTER_OTLP_" // of all signals

const (
	maxFile = 1 << 20 // bytes of a file with certificates
	maxSize = 1 << 20 // spans of a queue or a batch
	// minSecret is the length of the shortest word of a header that counts as a secret.
	minSecret = 8
)

// wanted reports whether the environment asks for a signal. Without OTEL_…_EXPORTER one of the
// variables in endpoints does.
func (s signal) wanted(endpoints ...string) (bool, error) {
	if strings.EqualFold(os.Getenv("OTEL_SDK_DISABLED"), "true") {
		return false, nil
	}
	name := "OTEL_" + string(s) + "_EXPORTER"
	switch kind := os.Getenv(name); {
	case kind == "":
		return slices.ContainsFunc(endpoints, func(name string) bool { return os.Getenv(name) != "" }), nil
	case kind == "none", kind == "prometheus" && s == metrics: // for Prometheus there is /metrics
		return false, nil
	case kind == "otlp":
		return true, nil
	default:
		return false, fmt.Errorf("otlp: %s: %q is not supported; use otlp or none", name, kind)
	}
}

// environment is the part of a signal's environment that its exporter does not check: it
// ignores bad values, or writes them to standard error.
type environment struct {
	signal   signal
	grpc     bool
	endpoint string   // a URL; for gRPC its path has no meaning
	secrets  []string // words of the headers
	faults   []error
}

// read returns the environment of a signal, or all faults. Path is where a collector takes the
// signal over HTTP.
func read(s signal, path string) (*environment, error) {
	e := &environment{signal: s}
	e.each("PROTOCOL", func(name, protocol string) {
		if e.grpc = protocol == "grpc"; !e.grpc && protocol != "http/protobuf" {
			e.fault(name, "%q is not supported; use http/protobuf or grpc, and the collector's port for that: by default 4318 or 4317", protocol)
		}
	})
	local := "http://localhost:4318"
	if e.grpc {
		local = "http://localhost:4317"
	}
	e.endpoint = local + path
	e.each("ENDPOINT", func(name, at string) {
		u, err := url.Parse(at)
		switch {
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
			e.fault(name, "it is not a URL; use for example %s", local)
		case u.User != nil || u.RawQuery != "": // may be secrets
			e.fault(name, "its user or query would not be sent; use OTEL_EXPORTER_OTLP_HEADERS")
		case name == general+"ENDPOINT":
			e.endpoint = u.JoinPath(path).String()
		default:
			e.endpoint = u.String()
		}
	})
	e.each("TIMEOUT", func(name, text string) { e.number(name, text, math.MaxInt32, "milliseconds") })
	e.each("COMPRESSION", func(name, how string) {
		if how != "gzip" && how != "none" {
			e.fault(name, "%q is not supported; use gzip or none", how)
		}
	})
	e.each("HEADERS", e.header)
	e.each("CERTIFICATE", func(name, file string) { e.trust(name, file) })
	for _, prefix := range e.prefixes() {
		cert, key := os.Getenv(prefix+"CLIENT_CERTIFICATE"), os.Getenv(prefix+"CLIENT_KEY")
		if cmp.Or(cert, key) == "" {
			continue
		}
		if _, err := tls.LoadX509KeyPair(cert, key); err != nil {
			e.fault(prefix+"CLIENT_CERTIFICATE and _CLIENT_KEY", "%w", err)
		}
		e.requireTLS(prefix + "CLIENT_CERTIFICATE")
	}
	switch s {
	case traces:
		e.numbers(math.MaxInt32, "milliseconds", "OTEL_BSP_SCHEDULE_DELAY", "OTEL_BSP_EXPORT_TIMEOUT")
		e.numbers(maxSize, "spans", "OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE")
		e.sampler()
	case metrics:
		e.numbers(math.MaxInt32, "milliseconds", "OTEL_METRIC_EXPORT_INTERVAL", "OTEL_METRIC_EXPORT_TIMEOUT")
		const name = general + "METRICS_TEMPORALITY_PREFERENCE"
		if kind := os.Getenv(name); kind != "" && !strings.EqualFold(kind, "cumulative") {
			e.fault(name, "%q is not supported; use cumulative", kind)
		}
	}
	return e, errors.Join(e.faults...)
}

func (e *environment) fault(name, format string, args ...any) {
	e.faults = append(e.faults, fmt.Errorf("otlp: "+name+": "+format, args...))
}

// prefixes returns how the names of variables begin: for all signals and for this one. The
// exporter reads both, and the second overrides the first.
func (e *environment) prefixes() []string {
	return []string{general, general + string(e.signal) + "_"}
}

// each calls f with the variables for a part of the exporter that are set.
func (e *environment) each(part string, f func(name, value string)) {
	for _, prefix := range e.prefixes() {
		if value := strings.TrimSpace(os.Getenv(prefix + part)); value != "" {
			f(prefix+part, value)
		}
	}
}

func (e *environment) numbers(most int64, unit string, names ...string) {
	for _, name := range names {
		if text := os.Getenv(name); text != "" {
			e.number(name, text, most, unit)
		}
	}
}

func (e *environment) number(name, text string, most int64, unit string) {
	if n, err := strconv.ParseInt(text, 10, 64); err != nil || n < 1 || n > most {
		e.fault(name, "%q must be 1 to %d %s", text, most, unit)
	}
}

// samplers are those of OpenTelemetry. Those of a ratio have an argument.
var samplers = []string{"", "always_on", "always_off", "parentbased_always_on", "parentbased_always_off", "traceidratio", "parentbased_traceidratio"}

// sampler checks the choice of spans.
func (e *environment) sampler() {
	const name = "OTEL_TRACES_SAMPLER"
	kind := strings.ToLower(strings.TrimSpace(os.Getenv(name)))
	if !slices.Contains(samplers, kind) {
		e.fault(name, "%q is not supported; use %s or %s", kind, strings.Join(samplers[1:6], ", "), samplers[6])
	}
	text := strings.TrimSpace(os.Getenv(name + "_ARG"))
	ratio, err := strconv.ParseFloat(text, 64)
	if valid := err == nil && ratio >= 0 && ratio <= 1; strings.HasSuffix(kind, "traceidratio") && text != "" && !valid {
		e.fault(name+"_ARG", "%q must be 0 to 1", text)
	}
}

// header checks a list of headers. Their values are not shown, as they may be secrets.
func (e *environment) header(name, list string) {
	for pair := range strings.SplitSeq(list, ",") {
		field, value, ok := strings.Cut(pair, "=")
		if field = strings.TrimSpace(field); field == "" && !ok {
			continue
		}
		value, err := url.PathUnescape(value)
		if !wire.Token(field) || !ok || err != nil {
			e.fault(name, "use NAME=VALUE, with commas between them, and special bytes as %%XX")
			continue
		}
		for word := range strings.FieldsSeq(value) { // such as Bearer and a token
			if len(word) >= minSecret {
				e.secrets = append(e.secrets, word)
			}
		}
	}
}

// trust checks a file with certificates of authorities.
func (e *environment) trust(name, file string) {
	data, _, err := regular.Read(file, maxFile)
	switch {
	case err != nil:
		e.fault(name, "%w", err)
	case !x509.NewCertPool().AppendCertsFromPEM(data):
		e.fault(name, "%s has no certificates in PEM", file)
	}
	e.requireTLS(name)
}

// requireTLS refuses certificates for an endpoint without TLS.
func (e *environment) requireTLS(name string) {
	if strings.HasPrefix(e.endpoint, "http:") {
		e.fault(name, "the endpoint is without TLS; use one that begins with https:")
	}
}

// redact returns the text of a failed export without secrets, which an answer of the collector
// may repeat.
func (e *environment) redact(failed error) error {
	text := failed.Error()
	for _, secret := range e.secrets {
		text = strings.ReplaceAll(text, secret, "[redacted]")
	}
	return errors.New(text)
}
