// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package otlp

import (
	"strings"
	"testing"

	"github.com/sluicegate/sluice/internal/testkit"
)

// TestEndpoint: the URL of a collector follows the specification of OTLP's exporters.
func TestEndpoint(t *testing.T) {
	for _, c := range []struct {
		name string
		env  []string
		want string
	}{
		{"default", nil, "http://localhost:4318/v1/metrics"},
		{"default over gRPC", []string{"PROTOCOL", "grpc"}, "http://localhost:4317/v1/metrics"},
		{"base", []string{"ENDPOINT", "http://collector:1/prefix/"}, "http://collector:1/prefix/v1/metrics"},
		{"signal's own", []string{"ENDPOINT", "http://collector:1", "METRICS_ENDPOINT", "HTTPS://collector:2/here"}, "https://collector:2/here"},
		{"another signal's", []string{"TRACES_ENDPOINT", "http://collector:1"}, "http://localhost:4318/v1/metrics"},
		{"spaces around", []string{"METRICS_ENDPOINT", " http://collector:1/ "}, "http://collector:1/"},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i := 0; i < len(c.env); i += 2 {
				t.Setenv("OTEL_EXPORTER_OTLP_"+c.env[i], c.env[i+1])
			}
			if e, err := read(metrics, "/v1/metrics"); err != nil || e.endpoint != c.want {
				t.Errorf("got %q, %v; want %q", e.endpoint, err, c.want)
			}
		})
	}
}

// TestFaults: each bad value that the exporters ignore is an error that names the variable, also
// where another variable overrides it, and shows no secret.
func TestFaults(t *testing.T) {
	cert, key, _ := testkit.CertificateFiles(t)
	otherCert, _, _ := testkit.CertificateFiles(t)
	const secure = "https://collector:4318"
	for _, c := range []struct {
		name string
		env  []string
		want string // a part of the error; empty: none
	}{
		{"user", []string{"ENDPOINT", "https://ada:secret@collector"}, "OTEL_EXPORTER_OTLP_ENDPOINT: its user"},
		{"query", []string{"METRICS_ENDPOINT", "https://collector/?key=secret"}, "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT: its user or query"},
		{"address for a URL", []string{"PROTOCOL", "grpc", "ENDPOINT", "collector:4317"}, "http://localhost:4317"},
		{"overridden URL", []string{"ENDPOINT", "%secret", "METRICS_ENDPOINT", secure}, "OTEL_EXPORTER_OTLP_ENDPOINT: it is not a URL"},
		{"overridden time", []string{"TIMEOUT", "10s", "METRICS_TIMEOUT", "10"}, "OTEL_EXPORTER_OTLP_TIMEOUT"},
		{"time too long", []string{"METRICS_TIMEOUT", "9999999999"}, "OTEL_EXPORTER_OTLP_METRICS_TIMEOUT"},
		{"overridden headers", []string{"HEADERS", "secret", "METRICS_HEADERS", "a=b"}, "OTEL_EXPORTER_OTLP_HEADERS"},
		{"header's name", []string{"METRICS_HEADERS", "a b=secret"}, "use NAME=VALUE"},
		{"header's value", []string{"METRICS_HEADERS", "a=secret%"}, "use NAME=VALUE"},
		{"headers", []string{"METRICS_HEADERS", "a=b%20c, d=e=f,"}, ""},
		{"compression", []string{"METRICS_COMPRESSION", "zstd"}, "use gzip or none"},
		{"protocol", []string{"METRICS_PROTOCOL", "http/json"}, "use http/protobuf or grpc"},
		{"certificates", []string{"ENDPOINT", secure, "CERTIFICATE", cert, "CLIENT_CERTIFICATE", cert, "CLIENT_KEY", key}, ""},
		{"certificate without TLS", []string{"ENDPOINT", "http://collector", "CERTIFICATE", cert}, "OTEL_EXPORTER_OTLP_CERTIFICATE: the endpoint is without TLS"},
		{"client's certificate without TLS", []string{"CLIENT_CERTIFICATE", cert, "CLIENT_KEY", key}, "CLIENT_CERTIFICATE: the endpoint is without TLS"},
		{"no PEM", []string{"ENDPOINT", secure, "METRICS_CERTIFICATE", key}, "no certificates in PEM"},
		{"no regular file", []string{"ENDPOINT", secure, "METRICS_CERTIFICATE", "/dev/zero"}, "OTEL_EXPORTER_OTLP_METRICS_CERTIFICATE"},
		{"no key", []string{"ENDPOINT", secure, "CLIENT_CERTIFICATE", cert}, "CLIENT_KEY"},
		{"key of another signal", []string{"ENDPOINT", secure, "CLIENT_CERTIFICATE", cert, "METRICS_CLIENT_KEY", key}, "CLIENT_KEY"},
		{"another key", []string{"ENDPOINT", secure, "CLIENT_CERTIFICATE", otherCert, "CLIENT_KEY", key}, "CLIENT_KEY"},
		{"temporality", []string{"METRICS_TEMPORALITY_PREFERENCE", "delta"}, "use cumulative"},
		{"the temporality", []string{"METRICS_TEMPORALITY_PREFERENCE", "CUMULATIVE"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			for i := 0; i < len(c.env); i += 2 {
				t.Setenv("OTEL_EXPORTER_OTLP_"+c.env[i], c.env[i+1])
			}
			_, err := read(metrics, "/v1/metrics")
			if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("a secret in %v", err)
			}
		})
	}
}

// TestNumbers: sizes and times of batches are bounded, and all faults are reported at once.
func TestNumbers(t *testing.T) {
	for s, names := range map[signal][]string{
		traces:  {"OTEL_BSP_SCHEDULE_DELAY", "OTEL_BSP_EXPORT_TIMEOUT", "OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE"},
		metrics: {"OTEL_METRIC_EXPORT_INTERVAL", "OTEL_METRIC_EXPORT_TIMEOUT"},
	} {
		for _, text := range []string{"-1", "0", "1s", "99999999999999999999"} {
			for _, name := range names {
				t.Setenv(name, text)
			}
			_, err := read(s, "/")
			for _, name := range names {
				if err == nil || !strings.Contains(err.Error(), name+`: "`+text+`" must be 1 to `) {
					t.Errorf("%s=%s: %v", name, text, err)
				}
			}
		}
		for _, name := range names {
			t.Setenv(name, "1000")
		}
		if _, err := read(s, "/"); err != nil {
			t.Error(err)
		}
	}
}

// TestSampler: a sampler that OpenTelemetry ignores is a fault.
func TestSampler(t *testing.T) {
	for _, c := range []struct{ sampler, arg, want string }{
		{"", "2", ""},
		{" ALWAYS_ON ", "2", ""},
		{"always_off", "", ""},
		{"parentbased_always_on", "", ""},
		{"parentbased_always_off", "", ""},
		{"traceidratio", "", ""},
		{"traceidratio", " 0.25 ", ""},
		{"parentbased_traceidratio", "1", ""},
		{"parentbased_traceidratio", "1.1", `otlp: OTEL_TRACES_SAMPLER_ARG: "1.1" must be 0 to 1`},
		{"traceidratio", "-0.1", `otlp: OTEL_TRACES_SAMPLER_ARG: "-0.1" must be 0 to 1`},
		{"traceidratio", "NaN", `otlp: OTEL_TRACES_SAMPLER_ARG: "NaN" must be 0 to 1`},
		{"traceidratio", "10%", `otlp: OTEL_TRACES_SAMPLER_ARG: "10%" must be 0 to 1`},
		{"jaeger_remote", "", `otlp: OTEL_TRACES_SAMPLER: "jaeger_remote" is not supported; use always_on, always_off, parentbased_always_on, parentbased_always_off, traceidratio or parentbased_traceidratio`},
	} {
		t.Setenv("OTEL_TRACES_SAMPLER", c.sampler)
		t.Setenv("OTEL_TRACES_SAMPLER_ARG", c.arg)
		text := ""
		if _, err := read(traces, "/"); err != nil {
			text = err.Error()
		}
		if text != c.want {
			t.Errorf("%q, %q: %q, want %q", c.sampler, c.arg, text, c.want)
		}
		if _, err := read(metrics, "/"); err != nil {
			t.Errorf("metrics: %v", err)
		}
	}
}
