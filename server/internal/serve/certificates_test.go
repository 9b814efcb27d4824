// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"strings"
	"testing"
	"time"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/testkit"
	"github.com/sluicegate/sluice/server/internal/gateway/certificate"
)

// TestCertificateLines: the lines name a certificate's fault and the certificate in use, and
// are empty without a fault.
func TestCertificateLines(t *testing.T) {
	cert, key, _ := testkit.CertificateFiles(t)
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
			testkit.WriteFile(t, cert, "garbage")
			_ = pair.Reload() // Err says it
		}
		if got := d.certificateLines(c.now); !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}
