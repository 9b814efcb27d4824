// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
)

// newObject returns the type that Kubernetes' API, or the Prometheus operator, has for a
// manifest, or nil if no manifest should be of that kind.
func newObject(kind meta.TypeMeta) any {
	switch kind {
	case meta.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}:
		return &core.ConfigMap{}
	case meta.TypeMeta{APIVersion: "v1", Kind: "Service"}:
		return &core.Service{}
	case meta.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}:
		return &apps.Deployment{}
	case meta.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"}:
		return &policy.PodDisruptionBudget{}
	case meta.TypeMeta{APIVersion: "monitoring.coreos.com/v1", Kind: "ServiceMonitor"}:
		return &monitoring.ServiceMonitor{}
	}
	return nil
}

// cluster is what manifests make.
type cluster struct {
	configs  map[string]string // sluice.yaml by ConfigMap
	limits   map[string]string // the files of limits for rls
	services []*core.Service
	deploy   *apps.Deployment
	budget   *policy.PodDisruptionBudget
	monitor  *monitoring.ServiceMonitor
}

// read decodes manifests strictly: a field that a type does not have is an error, and so is
// what the schema of the kind refuses.
func read(t *testing.T, manifests []byte) *cluster {
	t.Helper()
	c := &cluster{configs: make(map[string]string)}
	for doc := range bytes.SplitSeq(append([]byte("\n"), manifests...), []byte("\n---")) {
		var kind meta.TypeMeta
		if err := yaml.Unmarshal(doc, &kind); err != nil {
			t.Fatalf("%v:\n%s", err, doc)
		}
		if kind == (meta.TypeMeta{}) && len(bytes.TrimSpace(doc)) == 0 {
			continue
		}
		object := newObject(kind)
		if object == nil {
			t.Errorf("%v is not known:\n%s", kind, doc)
			continue
		}
		if err := yaml.UnmarshalStrict(doc, object); err != nil {
			t.Errorf("%s: %v", kind.Kind, err)
		}
		if err := validate(t, doc); err != nil {
			t.Errorf("%s: %v", kind.Kind, err)
		}
		switch o := object.(type) {
		case *core.ConfigMap:
			if text, ok := o.Data["sluice.yaml"]; ok {
				c.configs[o.Name] = text
			} else {
				c.limits = o.Data
			}
		case *core.Service:
			c.services = append(c.services, o)
		case *apps.Deployment:
			c.deploy = o
		case *policy.PodDisruptionBudget:
			c.budget = o
		case *monitoring.ServiceMonitor:
			c.monitor = o
		}
	}
	return c
}

// fits reports whether a selector has labels, and all of them are those of an object.
func fits(selector, labels map[string]string) bool {
	for name, value := range selector {
		if labels[name] != value {
			return false
		}
	}
	return len(selector) > 0
}

// verify checks that the parts find each other.
func (c *cluster) verify(t *testing.T) {
	t.Helper()
	if c.deploy == nil {
		t.Fatalf("a deployment is wanted: %+v", c)
	}
	pod := c.deploy.Spec.Template
	if ports := len(pod.Spec.Containers[0].Ports); ports < 2 || len(c.services) != ports {
		t.Fatalf("two ports at least and a service for each are wanted: %+v", c)
	}
	for _, s := range c.services {
		if !fits(s.Spec.Selector, pod.Labels) {
			t.Errorf("service %s selects %v, and pods have %v", s.Name, s.Spec.Selector, pod.Labels)
		}
	}
	if c.deploy.Spec.Selector == nil || !fits(c.deploy.Spec.Selector.MatchLabels, pod.Labels) {
		t.Errorf("the deployment does not select its pods")
	}
	if c.budget != nil && (c.budget.Spec.Selector == nil || !fits(c.budget.Spec.Selector.MatchLabels, pod.Labels)) {
		t.Errorf("the disruption budget does not select the pods")
	}
	container := pod.Spec.Containers[0]
	ports := map[string]int32{}
	for _, p := range container.Ports {
		ports[p.Name] = p.ContainerPort
	}
	for name, probe := range map[string]*core.Probe{"startup": container.StartupProbe, "liveness": container.LivenessProbe, "readiness": container.ReadinessProbe} {
		if probe == nil || ports[probe.HTTPGet.Port.StrVal] != 9090 || probe.HTTPGet.Host != "" {
			t.Errorf("the %s probe does not ask the admin address by the pod's: %v", name, probe)
		}
	}
	if c.monitor != nil {
		found := slices.ContainsFunc(c.services, func(s *core.Service) bool {
			return fits(c.monitor.Spec.Selector.MatchLabels, s.Labels) && s.Spec.Ports[0].Name == c.monitor.Spec.Endpoints[0].Port
		})
		if !found {
			t.Errorf("no service has what the monitor selects: %v", c.monitor.Spec.Selector)
		}
	}
	for _, v := range pod.Spec.Volumes {
		if v.ConfigMap != nil && c.configs[v.ConfigMap.Name] == "" && v.Name != "limits" {
			t.Errorf("no ConfigMap %s has a sluice.yaml", v.ConfigMap.Name)
		}
	}
	for _, m := range container.VolumeMounts {
		if m.SubPath != "" {
			t.Errorf("%s is mounted by subPath: a change would not be seen", m.Name)
		}
	}
	memory, limit := "", container.Resources.Limits.Memory().Value()
	for _, e := range container.Env {
		if e.Name == "GOMEMLIMIT" {
			memory = e.Value
		}
	}
	var mib int64
	if _, err := fmt.Sscanf(memory, "%dMiB", &mib); err != nil || mib<<20 >= limit {
		t.Errorf("GOMEMLIMIT %s is not below the limit of %d bytes", memory, limit)
	}
}

// checkConfigs reads the configurations as sluice does. Files that they name are not there.
func (c *cluster) checkConfigs(t *testing.T) {
	t.Helper()
	t.Setenv("REDIS_URL", "redis://127.0.0.1:6379")
	if len(c.configs) != 1 {
		t.Errorf("%d configurations", len(c.configs))
	}
	for _, text := range c.configs {
		parsed, err := config.Parse("sluice.yaml", []byte(text))
		if err != nil {
			t.Errorf("%v\n%s", err, text)
		} else if len(parsed.Policy.Rules()) != 1 {
			t.Errorf("%d rules", len(parsed.Policy.Rules()))
		}
	}
}

// documentedOverlay returns the kustomization that docs/install.md shows, for the folders
// of a test.
func documentedOverlay(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text, ok := strings.Cut(string(page), "```yaml\n# kustomization.yaml")
	text, _, closed := strings.Cut(text, "```")
	if !ok || !closed {
		t.Fatal("docs/install.md shows no kustomization")
	}
	return "#" + strings.ReplaceAll(text, "github.com/sluicegate/sluice/deploy/kubernetes/", "../")
}

// TestKustomize: the base, with the component, and as docs/install.md shows, is what
// Kubernetes takes, and the program starts with it.
func TestKustomize(t *testing.T) {
	secrets := map[string]map[string]string{"sluice-store": {"url": redistest.Start(t, redistest.Redis(t)).URL()}}
	for _, with := range []string{"resources: [../base]\n", "resources: [../base]\ncomponents: [../monitoring]\n", documentedOverlay(t)} {
		disk := filesys.MakeFsInMemory()
		for _, dir := range []string{"base", "monitoring"} {
			files, err := os.ReadDir("../kubernetes/" + dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				data, err := os.ReadFile("../kubernetes/" + dir + "/" + f.Name())
				if err != nil {
					t.Fatal(err)
				}
				if err := disk.WriteFile("/"+dir+"/"+f.Name(), data); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := disk.WriteFile("/all/kustomization.yaml", []byte(with)); err != nil {
			t.Fatal(err)
		}
		own := strings.Replace(string(testkit.ReadFile(t, "../kubernetes/base/sluice.yaml")), "name: api", "name: own", 1)
		if err := disk.WriteFile("/all/sluice.yaml", []byte(own)); err != nil {
			t.Fatal(err)
		}
		made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(disk, "/all")
		if err != nil {
			t.Fatal(err)
		}
		text, err := made.AsYaml()
		if err != nil {
			t.Fatal(err)
		}
		c := read(t, text)
		c.verify(t)
		c.checkConfigs(t)
		c.container(t, secrets).start(t, hosts{})
		if replaced := strings.Contains(with, "replace"); replaced != strings.Contains(string(text), "name: own") {
			t.Errorf("with %q the configuration is replaced: %v", with, !replaced)
		}
		if (c.monitor != nil) != strings.Contains(with, "components") || c.budget == nil {
			t.Errorf("with %q: monitor %v, budget %v", with, c.monitor, c.budget)
		}
	}
}

// render returns the manifests of the chart under values, and what Helm prints after an install.
func render(t *testing.T, ch *chart.Chart, values string) (objects, notes string, err error) {
	t.Helper()
	var overlay map[string]any
	if err := yaml.Unmarshal([]byte(values), &overlay); err != nil {
		t.Fatal(err)
	}
	all, err := chartutil.ToRenderValues(ch, overlay, chartutil.ReleaseOptions{Name: "front", Namespace: "limits"}, chartutil.DefaultCapabilities)
	if err != nil {
		return "", "", err
	}
	files, err := engine.Render(ch, all)
	if err != nil {
		return "", "", err
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if strings.HasSuffix(name, ".yaml") && strings.TrimSpace(files[name]) != "" {
			b.WriteString("\n---\n" + files[name])
		}
	}
	return b.String(), files["sluice/templates/NOTES.txt"], nil
}

// TestHelm: the chart makes what Kubernetes takes, by its defaults and with all on, and
// refuses values that it does not know.
func TestHelm(t *testing.T) {
	ch, err := loader.LoadDir("../helm/sluice")
	if err != nil {
		t.Fatal(err)
	}
	if err := ch.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, values := range map[string]string{
		"defaults": "{}",
		"all": `
serviceMonitor: {enabled: true, labels: {release: prometheus}}
adminToken: {secret: sluice-admin}
redis: {secret: sluice-store}
tokens: {secret: sluice-tokens}
limits: {shop.yaml: {domain: shop, descriptors: [{key: user, rate_limit: {unit: minute, requests_per_unit: 1000000}}]}}
fronts:
  proxy: {tls: gateway-tls, listen: {tls: {client_ca: /etc/sluice-tls/proxy/ca.crt, client_cert: optional}}}
  api: {enabled: true, listen: {rules: [api]}}
  check: {enabled: true, port: 9101}
  ext_authz: {enabled: true}
  rls: {enabled: true}
  resp: {enabled: true}
  tcp: {enabled: true, listen: {upstream: "db:5432"}}
imagePullSecrets: [{name: registry}]
podAnnotations: {a: b}
nodeSelector: {kubernetes.io/arch: arm64}
tolerations: [{key: edge, operator: Exists}]
affinity: {nodeAffinity: {}}
`,
		"store":  "{redis: {secret: sluice-store}, replicas: 3}",
		"little": "{disruptionBudget: {enabled: false}}",
	} {
		t.Run(name, func(t *testing.T) {
			text, notes, err := render(t, ch, values)
			if err != nil {
				t.Fatal(err)
			}
			for says, when := range map[string]bool{
				"kubectl -n limits create secret generic sluice-store --from-file=url=./redis-url\n":            name == "all" || name == "store",
				"kubectl -n limits create secret generic sluice-tokens --from-file=tokens.json=./tokens.json\n": name == "all",
				"kubectl -n limits create secret generic sluice-admin --from-file=token=./token\n":              name == "all",
				"proxy: front-sluice.limits:80":                                  true,
				"proxy: front-sluice.limits:80, TLS by the secret gateway-tls\n": name == "all",
				"ext_authz: front-sluice-ext-authz.limits:9002\n":                name == "all",
				"check: front-sluice-check.limits:9101\n":                        name == "all",
				"A sample app answers":                                           true,
				"counts for itself":                                              false,
			} {
				if strings.Contains(notes, says) != when {
					t.Errorf("%q is there: %v; the notes are\n%s", says, !when, notes)
				}
			}
			c := read(t, []byte(text))
			c.verify(t)
			if name != "all" { // whose token is in a file that is not there
				c.checkConfigs(t)
			} else if c.monitor == nil || !strings.Contains(c.configs["front-sluice"], "token_file: /etc/sluice-token/token") {
				t.Errorf("got %+v", c)
			}
			for _, of := range []string{
				"name: front-sluice-api", "serve: api", "containerPort: 8081", "name: front-sluice-check", "serve: check", "containerPort: 9101",
				"name: front-sluice-ext-authz", "serve: ext_authz", "containerPort: 9002", "name: front-sluice-rls", "serve: rls", "containerPort: 9003",
				"name: front-sluice-resp", "serve: resp", "containerPort: 6380", "name: front-sluice-tcp", "serve: tcp", "containerPort: 9004",
				"mountPath: /etc/sluice-tokens", "mountPath: /etc/sluice-limits", "mountPath: /etc/sluice-tls/proxy", "client_ca: /etc/sluice-tls/proxy/ca.crt", "requests_per_unit: 1000000\n",
			} {
				if strings.Contains(text, of) != (name == "all") {
					t.Errorf("%q is there: %v", of, name != "all")
				}
			}
			if (c.budget == nil) != (name == "little") {
				t.Errorf("budget: %v", c.budget)
			}
		})
	}
	for values, want := range map[string]string{
		"{replicaCount: 3}": "replicaCount", "{config: {listen: '0.0.0.0:80', rules: []}}": "config", "{goMemoryLimit: 200M}": "goMemoryLimit", "{image: {name: x}}": "image",
		"{fronts: {spoe: {enabled: true}}}": "spoe", "{fronts: {api: {listen: {serve: resp}}}}": "listen", "{fronts: {tcp: {port: 9090}}}": "port",
		"{fronts: {proxy: {enabled: false}}}": "no front is enabled",
		"{fronts: {api: {enabled: true}}}":    "fronts.api needs tokens.secret, a secret with the file of its tokens; create one: kubectl create secret generic sluice-tokens --from-file=tokens.json",
		"{fronts: {resp: {enabled: true}}}":   "fronts.resp needs tokens.secret",
		"{fronts: {rls: {enabled: true}}}":    "fronts.rls needs limits",
		"{fronts: {tcp: {enabled: true}}}":    "fronts.tcp.listen.upstream",
	} {
		if _, _, err := render(t, ch, values); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: want an error with %q, got %v", values, want, err)
		}
	}
	if _, notes, err := render(t, ch, "{replicas: 3, config: {upstream: 'http://app:80'}}"); err != nil || !strings.Contains(notes, "Each of the 3 pods counts for itself") || strings.Contains(notes, "sample app") {
		t.Errorf("%v; the notes are\n%s", err, notes)
	}
}
