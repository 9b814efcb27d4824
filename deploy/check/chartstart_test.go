// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
)

// container returns that of the deployment. The value of a secret is by its name and key.
func (c *cluster) container(t *testing.T, secrets map[string]map[string]string) *container {
	t.Helper()
	pod := c.deploy.Spec.Template.Spec
	of := pod.Containers[0]
	made := &container{args: of.Args, files: make(map[string]string)}
	value := func(name, key string) string {
		text, ok := secrets[name][key]
		if !ok {
			t.Errorf("there is no secret %s with the key %s", name, key)
		}
		return text
	}
	for _, e := range of.Env {
		if from := e.ValueFrom; from != nil {
			e.Value = value(from.SecretKeyRef.Name, from.SecretKeyRef.Key)
		}
		made.env = append(made.env, e.Name+"="+e.Value)
	}
	for _, m := range of.VolumeMounts {
		for _, v := range pod.Volumes {
			switch {
			case v.Name != m.Name:
			case v.ConfigMap != nil && c.configs[v.ConfigMap.Name] != "":
				made.files[path.Join(m.MountPath, "sluice.yaml")] = c.configs[v.ConfigMap.Name]
			case v.ConfigMap != nil:
				for name, text := range c.limits {
					made.files[path.Join(m.MountPath, name)] = text
				}
			case len(v.Secret.Items) > 0:
				made.files[path.Join(m.MountPath, v.Secret.Items[0].Path)] = value(v.Secret.SecretName, v.Secret.Items[0].Key)
			default:
				for key, text := range secrets[v.Secret.SecretName] {
					made.files[path.Join(m.MountPath, key)] = text
				}
			}
		}
	}
	return made
}

// TestHelmStarts: the program starts with what the chart makes by its defaults and with each front, which
// answers in its protocol, and denies what is above its limit.
func TestHelmStarts(t *testing.T) {
	from := "../helm/sluice"
	if packed := os.Getenv("SLUICE_CHART"); packed != "" {
		from = packed
	}
	ch, err := loader.Load(from)
	if err != nil {
		t.Fatal(err)
	}
	app := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(app.Close)
	upstream := app.Listener.Addr().String()
	store := redistest.Start(t, redistest.Redis(t))
	cert, key, _ := testkit.CertificateFiles(t)
	secrets := map[string]map[string]string{
		"sluice-store":  {"url": store.URL() + "\n"},
		"sluice-tokens": {"tokens.json": tokens},
		"sluice-tls":    {"tls.crt": string(testkit.ReadFile(t, cert)), "tls.key": string(testkit.ReadFile(t, key))},
		"sluice-admin":  {"token": "change-me-0123456789\n"},
	}
	const (
		proxies = "client_ip: {trusted: 127.0.0.0/8}"
		once    = "config: {" + proxies + ", rules: [{name: api, by: ip, limits: 1/h sliding-log}]}\n"
		only    = "proxy: {enabled: false}, "
	)
	for _, c := range []struct {
		name, values string
		front, port  string
		allows       int // of two
	}{
		{"defaults", "{}", "proxy", "8080", 2},
		{"proxy", once, "proxy", "8080", 1},
		{"store", once + "replicas: 3\nredis: {secret: sluice-store}", "proxy", "8080", 1},
		{"api", once + "tokens: {secret: sluice-tokens}\nfronts: {" + only + "api: {enabled: true}}", "api", "8081", 1},
		{"check", once + "fronts: {" + only + "check: {enabled: true}}", "check", "9001", 1},
		{"ext_authz", once + "fronts: {" + only + "ext_authz: {enabled: true}}", "ext_authz", "9002", 1},
		{"rls", "config: {rules: []}\nfronts: {" + only + "rls: {enabled: true}}\nlimits: {shop.yaml: {domain: shop, descriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 1}}]}}", "rls", "9003", 1},
		{"resp", once + "tokens: {secret: sluice-tokens}\nfronts: {" + only + "resp: {enabled: true}}", "resp", "6380", 1},
		{"tcp", "fronts: {tcp: {enabled: true, listen: {upstream: '" + upstream + "'}}}", "tcp", "9004", 2},
		{"all", once + "redis: {secret: sluice-store}\nadminToken: {secret: sluice-admin}\ntokens: {secret: sluice-tokens}\nlimits: {shop.yml: {domain: shop, descriptors: [{key: user}]}}\n" +
			"fronts: {proxy: {tls: sluice-tls}, api: {enabled: true, tls: sluice-tls}, check: {enabled: true}, ext_authz: {enabled: true}, rls: {enabled: true}, " +
			"resp: {enabled: true, listen: {rules: [api]}}, tcp: {enabled: true, listen: {upstream: '" + upstream + "', connections: 1/h}}}", "check", "9001", 0}, // the budget that the gateway of "store" has used up
	} {
		t.Run(c.name, func(t *testing.T) {
			text, _, err := render(t, ch, c.values)
			if err != nil {
				t.Fatal(err)
			}
			at := read(t, []byte(text)).container(t, secrets).start(t, hosts{})
			allowed := 0
			for range 2 {
				if ask[c.front](t, at["0.0.0.0:"+c.port]) {
					allowed++
				}
			}
			if allowed != c.allows {
				t.Errorf("%d of 2 are allowed, want %d", allowed, c.allows)
			}
		})
	}
}
