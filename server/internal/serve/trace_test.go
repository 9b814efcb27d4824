// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve_test

import (
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/server/internal/serve"
	"github.com/sluicegate/sluice/server/internal/serve/servetest"
)

// TestSpans: if the environment asks for spans, a gateway's decisions are in the traces of
// their requests, and the last spans are sent when it ends.
func TestSpans(t *testing.T) {
	const traceID, parentID = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
	var decides, takes atomic.Int64
	to := servetest.Backend(t, func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		var export collector.ExportTraceServiceRequest
		if err := proto.Unmarshal(body, &export); err != nil {
			t.Error(err)
		}
		for _, of := range export.GetResourceSpans() {
			for _, s := range of.GetScopeSpans() {
				for _, span := range s.GetSpans() {
					if hex.EncodeToString(span.GetTraceId()) != traceID {
						t.Errorf("%s is in another trace", span.GetName())
					}
					switch span.GetName() {
					case "decide":
						decides.Add(1)
						if hex.EncodeToString(span.GetParentSpanId()) != parentID {
							t.Error("a decision has another parent")
						}
					case "take":
						takes.Add(1)
					}
				}
			}
		}
	})
	var passed atomic.Int64
	up := servetest.Backend(t, func(_ http.ResponseWriter, r *http.Request) {
		passed.Add(1)
		if got := r.Header.Get("Traceparent"); !strings.HasPrefix(got, "00-"+traceID+"-"+parentID) {
			t.Errorf("the upstream got %q", got)
		}
	})
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", to)
	s := servetest.Start(t, fmt.Sprintf("upstream: %q\nrules: [{name: a, limits: 2/h}]\n", up))
	for range 3 {
		s.Get(t, "/", "Traceparent", "00-"+traceID+"-"+parentID+"-01")
	}
	s.Get(t, "/", "Traceparent", "00-"+traceID+"-"+parentID+"-00")
	s.End(t)
	if decides.Load() != 3 || takes.Load() != 3 || passed.Load() != 2 {
		t.Errorf("%d spans of decisions, %d of takes, want 3; %d passed, want 2", decides.Load(), takes.Load(), passed.Load())
	}
}

// TestSpansAskedForWrongly: a gateway does not start with an invalid request for spans.
func TestSpansAskedForWrongly(t *testing.T) {
	startsWrongly(t, "OTEL_TRACES_EXPORTER", "zipkin")
}

// startsWrongly starts a gateway with a bad value of an environment variable.
func startsWrongly(t *testing.T, name, value string) {
	t.Helper()
	t.Setenv(name, value)
	r := &servetest.Gateway{File: t.TempDir() + "/sluice.yaml"}
	r.Write(t, "rules: [{name: a, limits: 2/h}]\n")
	c, err := config.Load(r.File)
	if err != nil {
		t.Fatal(err)
	}
	if err := serve.Run(t.Context(), serve.Options{Config: c, Out: io.Discard, Log: slog.New(slog.DiscardHandler)}); err == nil || !strings.Contains(err.Error(), name) {
		t.Errorf("run: %v", err)
	}
}
