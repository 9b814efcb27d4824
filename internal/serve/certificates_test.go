// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/config"
	"github.com/sluicegate/sluice/internal/gateway/certificate"
)

// TestCertificateLines: what is wrong with a certificate is said, and what
// serves meanwhile; nothing where all is well.
func TestCertificateLines(t *testing.T) {
	cert, key, _ := certificateFiles(t)
	pair, err := certificate.Load(cert, key, certificate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	o, plain := &listener{pair: pair}, &listener{}
	o.config.Store(&config.Listener{Address: "127.0.0.1:8443"})
	plain.config.Store(&config.Listener{Address: "127.0.0.1:8080"})
	d := &listeners{open: []*listener{plain, o}}
	end := pair.NotAfter()
	at := end.UTC().Format(time.RFC3339)
	const head = "\ncertificate of 127.0.0.1:8443: "
	for _, c := range []struct {
		name  string
		spoil bool
		now   time.Time
		want  string
	}{
		{"well", false, end, ""},
		{"expired", false, end.Add(time.Second), head + "it expired on " + at + "; put a new pair into its files"},
		{"spoilt", true, end, head + "its last reload failed; the previous one, which expires on " + at + ", stays active:\n" +
			"certificate: " + cert + " and " + key + " cannot be used: "},
		{"both", true, end.Add(time.Second), head + "its last reload failed; the previous one, which expired on " + at + ", stays active:\n"},
	} {
		if c.spoil {
			if err := os.WriteFile(cert, []byte("garbage"), 0o600); err != nil {
				t.Fatal(err)
			}
			_ = pair.Reload() // Err says it
		}
		if got := d.certificateLines(c.now); !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// TestReportsItsCertificate: one that could not be activated shows at
// /readyz, which stays 200, and in the metrics, though no client comes.
func TestReportsItsCertificate(t *testing.T) {
	cert, key, _ := certificateFiles(t)
	s := start(t, fmt.Sprintf("listen: {address: 127.0.0.1:0, tls: {cert: %q, key: %q}}\nrules: [{name: a, limits: 1000/min}]\n", cert, key))
	const current = `sluice_certificate_current{listener="127.0.0.1:0"}`
	m := s.metrics(t)
	if end := time.Unix(int64(m[`sluice_certificate_not_after_seconds{listener="127.0.0.1:0"}`]), 0); m[current] != 1 || time.Until(end) > time.Hour {
		t.Errorf("got current %v, expires %v; want 1, within an hour", m[current], end)
	}
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	until(t, "the fault to be reported", func() bool { return s.metrics(t)[current] == 0 })
	if got := fetch(t, http.DefaultClient, s.admin+"/readyz"); got.status != http.StatusOK || !strings.Contains(got.body, key+": no such file") {
		t.Errorf("got %d %q; want 200 and the file that is gone", got.status, got.body)
	}
	s.expectLog(t, "cannot be used")
}
