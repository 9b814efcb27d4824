// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/types"
	"sigs.k8s.io/yaml"

	"github.com/sluicegate/sluice/config"
)

// TestCompose: Compose takes the file; what it mounts is there, and the parts name each
// other as the network does.
func TestCompose(t *testing.T) {
	project := loadCompose(t)
	if got, want := project.ServiceNames(), []string{"grafana", "nginx", "node1", "node2", "node3", "prometheus", "redis"}; !slices.Equal(got, want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	for _, s := range loadCompose(t, "fronts").Services {
		if !strings.Contains(s.Image, ":") || strings.HasSuffix(s.Image, ":latest") {
			t.Errorf("%s: image %q has no version", s.Name, s.Image)
		}
		for _, v := range s.Volumes {
			if _, err := os.Stat(v.Source); v.Type != types.VolumeTypeBind || err != nil {
				t.Errorf("%s: %v: %v", s.Name, v, err)
			}
		}
		for _, p := range s.Ports {
			if p.HostIP != "127.0.0.1" {
				t.Errorf("%s publishes %s to other machines", s.Name, p.Published)
			}
		}
		if strings.HasPrefix(s.Name, "node") || s.Name == "fronts" {
			healthz(t, &s)
		}
	}
	if c, err := config.Load("../compose/sluice.yaml"); err != nil || len(c.Listen) != 1 || c.Listen[0].Serve != "" {
		t.Errorf("without a profile there is the gateway alone: %+v, %v", c.Listen, err)
	}
	c, err := config.Load("../compose/sluice.yaml")
	if err != nil {
		t.Fatal(err)
	}
	nginx := project.Services["nginx"].Networks["fleet"].Ipv4Address
	if len(c.ClientIP.Trusted) != 1 || c.ClientIP.Trusted[0].String() != nginx+"/32" {
		t.Errorf("trusted are %v, and nginx is %s", c.ClientIP.Trusted, nginx)
	}
	for _, name := range []string{"nginx.conf", "prometheus.yml", "sluice.yaml"} {
		text, err := os.ReadFile(filepath.Join("../compose", name))
		if err != nil {
			t.Fatal(err)
		}
		for _, node := range []string{"node1", "node2", "node3"} {
			if !strings.Contains(string(text), node) {
				t.Errorf("%s does not name %s", name, node)
			}
		}
	}
	for _, name := range []string{"../compose/grafana/datasources.yaml", "../compose/grafana/dashboards.yaml"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var doc struct {
			APIVersion int `json:"apiVersion"`
		}
		if err := yaml.Unmarshal(text, &doc); err != nil || doc.APIVersion != 1 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// healthz checks that nothing replaces the health check and the command of the image, and that its memory is bounded.
func healthz(t *testing.T, s *types.ServiceConfig) {
	t.Helper()
	if s.HealthCheck != nil || len(s.Command) > 0 || !s.ReadOnly || s.MemLimit == 0 {
		t.Errorf("%s: health check %v, command %v, read-only %v, memory %d", s.Name, s.HealthCheck, s.Command, s.ReadOnly, s.MemLimit)
	}
}
