// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/sluicegate/sluice/internal/regular"
)

const (
	defaultEndpoint = "http://localhost:4318/v1/traces" // the default of the OTLP specification
	defaultTimeout  = 10 * time.Second
	mostAnswer      = 64 << 10 // bytes read of a collector's answer
	mostFile        = 1 << 20  // bytes of a file with certificates or a key
)

// collector sends spans by OTLP over HTTP. OpenTelemetry's own client compiles all of gRPC,
// for types that HTTP does not need: it doubles the program.
type collector struct {
	url    string
	header http.Header
	gzip   bool
	client http.Client
}

// variable returns the environment's value for a part of OTLP's exporter, and the name of its
// variable: that of traces or the general one.
func variable(part string) (name, value string) {
	name = "OTEL_EXPORTER_OTLP_TRACES_" + part
	if value = os.Getenv(name); value == "" {
		name = "OTEL_EXPORTER_OTLP_" + part
		value = os.Getenv(name)
	}
	return name, value
}

// newCollector returns the collector named by the environment, or all faults.
func newCollector() (*collector, error) {
	c := &collector{url: defaultEndpoint, header: http.Header{"Content-Type": {"application/x-protobuf"}}}
	c.client.Timeout = defaultTimeout
	var faults []error
	fault := func(name, format string, args ...any) {
		faults = append(faults, fmt.Errorf("trace: "+name+": "+format, args...))
	}
	if name, at := variable("ENDPOINT"); at != "" {
		u, err := url.Parse(at)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			fault(name, "it is no URL; use for example http://127.0.0.1:4318")
		} else if c.url = at; name == "OTEL_EXPORTER_OTLP_ENDPOINT" {
			c.url = u.JoinPath("v1/traces").String()
		}
	}
	if name, p := variable("PROTOCOL"); p != "" && p != "http/protobuf" {
		fault(name, "%q cannot be had; use http/protobuf, and the collector's port for that, 4318 by default", p)
	}
	if name, text := variable("TIMEOUT"); text != "" {
		ms, err := strconv.ParseInt(text, 10, 32)
		if err != nil || ms < 1 {
			fault(name, "%q must be 1 or more milliseconds", text)
		}
		c.client.Timeout = time.Duration(ms) * time.Millisecond
	}
	switch name, how := variable("COMPRESSION"); how {
	case "", "none":
	case "gzip":
		c.gzip = true
		c.header.Set("Content-Encoding", "gzip")
	default:
		fault(name, "%q cannot be had; use gzip or none", how)
	}
	name, list := variable("HEADERS")
	for pair := range strings.SplitSeq(list, ",") {
		field, value, ok := strings.Cut(pair, "=")
		if field = strings.TrimSpace(field); field == "" && !ok {
			continue
		}
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if field == "" || !ok || err != nil { // the value may be a secret, and is not shown
			fault(name, "use NAME=VALUE, with commas between them, and special bytes as %%XX")
			continue
		}
		c.header.Set(field, value)
	}
	secure, err := security()
	if err = errors.Join(append(faults, err)...); err != nil {
		return nil, err
	}
	// The operator chooses the collector, and so a proxy before it.
	c.client.Transport = &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: secure, MaxIdleConns: 1, IdleConnTimeout: time.Minute}
	return c, nil
}

// security returns the certificates for the connection to the collector.
func security() (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if name, file := variable("CERTIFICATE"); file != "" {
		data, _, err := regular.Read(file, mostFile)
		if err != nil {
			return nil, fmt.Errorf("trace: %s: %w", name, err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(data) {
			return nil, fmt.Errorf("trace: %s: %s has no certificates in PEM", name, file)
		}
	}
	name, cert := variable("CLIENT_CERTIFICATE")
	_, key := variable("CLIENT_KEY")
	if cmp.Or(cert, key) != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("trace: %s and _CLIENT_KEY: %w", name, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// Start implements otlptrace.Client.
func (c *collector) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (c *collector) Stop(context.Context) error {
	c.client.CloseIdleConnections()
	return nil
}

// UploadTraces sends spans, without retries. It implements otlptrace.Client.
func (c *collector) UploadTraces(ctx context.Context, all []*spans.ResourceSpans) error {
	// On the wire this equals an ExportTraceServiceRequest.
	body, err := proto.Marshal(&spans.TracesData{ResourceSpans: all})
	if err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	if c.gzip {
		var short bytes.Buffer
		w := gzip.NewWriter(&short)
		_, err := w.Write(body)
		if err := errors.Join(err, w.Close()); err != nil {
			return fmt.Errorf("trace: %w", err)
		}
		body = short.Bytes()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	req.Header = c.header.Clone()
	resp, err := c.client.Do(req)
	if err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, mostAnswer)) // allows the connection to be reused
	if err := errors.Join(err, resp.Body.Close()); err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("trace: the collector answered %s", resp.Status)
	}
	return nil
}
