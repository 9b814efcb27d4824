// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package check

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/internal/testkit"
)

// loadCompose reads the Compose file with a profile, or none.
func loadCompose(t *testing.T, profiles ...string) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{"../compose/compose.yaml"}, cli.WithOsEnv, cli.WithProfiles(profiles))
	if err != nil {
		t.Fatal(err)
	}
	project, err := options.LoadProject(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return project
}

// composed returns the container of a service of sluice: with the command of the image, as the file has none.
func composed(t *testing.T, s types.ServiceConfig) *container {
	t.Helper()
	made := &container{args: s.Command, files: make(map[string]string)}
	if len(s.Command) == 0 {
		made.args = []string{"serve", "--config", "/etc/sluice/sluice.yaml"}
	}
	for name, value := range s.Environment {
		made.env = append(made.env, name+"="+*value)
	}
	for _, v := range s.Volumes {
		made.files[v.Target] = string(testkit.ReadFile(t, v.Source))
	}
	return made
}

// TestComposeStarts: what the Compose file starts works together, by its command lines and files: nginx
// in front of three nodes that share a budget in Redis, with the fronts of the profile.
func TestComposeStarts(t *testing.T) {
	project := loadCompose(t, "fronts")
	redis := project.Services["redis"].Command
	store := redistest.Start(t, redistest.Redis(t), redis[1:]...)
	front := testkit.FreeAddress(t)
	at := hosts{"redis://redis:6379": store.URL(), "nginx:8080": front, "172.30.84.2/32": "127.0.0.1/32", "172.30.84.0/24": "127.0.0.0/8", "1000/min": "20/d"}
	nodes := make(hosts)
	for _, name := range []string{"node1", "node2", "node3"} {
		for of, address := range composed(t, project.Services[name]).start(t, at) {
			if _, port, ok := strings.Cut(of, "0.0.0.0:"); ok {
				nodes[name+":"+port] = address
			}
		}
	}
	startNginx(t, project.Services["nginx"], front, nodes)
	allowed := 0
	for range 25 {
		if ask["proxy"](t, front) {
			allowed++
		}
	}
	if allowed != 20 {
		t.Errorf("nginx and three nodes let %d requests through, want 20", allowed)
	}
	if found, err := exec.LookPath("promtool"); err == nil {
		checkPrometheus(t, found, project.Services["prometheus"])
	}

	fronts := composed(t, project.Services["fronts"]).start(t, at)
	var listens []string
	for _, p := range project.Services["fronts"].Ports {
		listens = append(listens, p.Published)
		if fronts["0.0.0.0:"+p.Published] == "" {
			t.Errorf("no front has the port %s", p.Published)
		}
	}
	for of := range fronts {
		if port, ok := strings.CutPrefix(of, "0.0.0.0:"); ok && port != "9090" && !slices.Contains(listens, port) {
			t.Errorf("the port %s is not published", port)
		}
	}
	for name, port := range map[string]string{"api": "8081", "check": "9001", "ext_authz": "9002", "rls": "9003", "resp": "6380", "tcp": "9004"} {
		// The gateway has used up what ann has of the rule. rls and resp have limits of their own, and
		// behind tcp the gateway is asked about another user.
		own := name == "rls" || name == "resp" || name == "tcp"
		if got := ask[name](t, fronts["0.0.0.0:"+port]); got != own {
			t.Errorf("%s allows ann: %v", name, got)
		}
	}
}

// startNginx starts nginx with its file of the Compose file, at an address.
func startNginx(t *testing.T, s types.ServiceConfig, address string, nodes hosts) {
	t.Helper()
	program, err := exec.LookPath("nginx")
	if err != nil {
		t.Fatal("nginx is not installed; install it with: apt-get install nginx")
	}
	dir := t.TempDir()
	text := nodes.replace(t, strings.Replace(composed(t, s).files["/etc/nginx/nginx.conf"], "listen 8080;", "listen "+address+";", 1))
	// The image's folders are not here, or not to be written.
	text = strings.Replace(text, "http {", "http {\n    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;", 1)
	file := filepath.Join(dir, "nginx.conf")
	testkit.WriteFile(t, file, text)
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, "-p", dir, "-e", "stderr", "-c", file, "-g", "daemon off; pid nginx.pid;")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	log := new(testkit.Buffer)
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(log)
		}
	})
	testkit.Until(t, "nginx to listen", func() bool {
		conn, err := net.Dial("tcp", address)
		return err == nil && conn.Close() == nil
	})
}

// checkPrometheus checks the configuration of Prometheus, with the files that are mounted beside it.
func checkPrometheus(t *testing.T, tool string, s types.ServiceConfig) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range composed(t, s).files {
		testkit.WriteFile(t, filepath.Join(dir, filepath.Base(name)), strings.ReplaceAll(text, "/etc/prometheus/", dir+"/"))
	}
	if out, err := exec.CommandContext(t.Context(), tool, "check", "config", filepath.Join(dir, "prometheus.yml")).CombinedOutput(); err != nil {
		t.Errorf("promtool: %v\n%s", err, out)
	}
}
