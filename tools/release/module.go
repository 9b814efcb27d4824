// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// fromProxy lets go find sluice in the folder, and everything else where it always is, with
// a module cache of its own.
func (r *release) fromProxy(ctx context.Context) ([]string, error) {
	others, err := output(ctx, r.work, nil, "go", "env", "GOPROXY")
	if err != nil {
		return nil, err
	}
	return []string{
		"GOPROXY=file://" + filepath.ToSlash(r.proxy) + "," + others, "GONOSUMDB=" + root + "," + root + "/*",
		"GOMODCACHE=" + filepath.Join(r.work, "cache"), "GOFLAGS=-mod=mod", "GOWORK=off",
	}, nil
}

// publish makes each module what it is at its tag: without a replacement, and requiring
// the others by the version. Those are in the proxy by then.
func (r *release) publish(ctx context.Context) error {
	env, err := r.fromProxy(ctx)
	if err != nil {
		return err
	}
	for _, m := range r.modules {
		dir := filepath.Join(r.source, filepath.FromSlash(m))
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err != nil {
			return err
		}
		for _, other := range r.modules {
			name := path.Join(root, other)
			if !strings.Contains(string(text), "\nreplace "+name+" =>") {
				continue
			}
			if _, err := output(ctx, dir, env, "go", "mod", "edit", "-dropreplace="+name, "-require="+name+"@"+r.version); err != nil {
				return err
			}
		}
		if m != "" {
			if _, err := output(ctx, dir, env, "go", "mod", "tidy"); err != nil {
				return err
			}
		}
		tag := path.Join(m, r.version)
		if err := r.put(path.Join(root, m), dir, r.version); err != nil {
			return err
		}
		fmt.Println("   tag", tag)
	}
	return nil
}

// put writes the files by which a proxy serves a version.
func (r *release) put(name, dir, version string) error {
	to := filepath.Join(r.proxy, filepath.FromSlash(name), "@v")
	if err := os.MkdirAll(to, 0o750); err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return err
	}
	if strings.Contains(string(text), "\nreplace ") {
		return fmt.Errorf("%s replaces a module", name)
	}
	for file, data := range map[string][]byte{
		"list": []byte(version + "\n"), version + ".mod": text, version + ".info": []byte(`{"Version": "` + version + `"}`),
	} {
		if err := os.WriteFile(filepath.Join(to, file), data, 0o600); err != nil {
			return err
		}
	}
	f, err := os.Create(filepath.Join(to, version+".zip"))
	if err != nil {
		return err
	}
	if err := zip.CreateFromDir(f, module.Version{Path: name, Version: version}, dir); err != nil {
		return err
	}
	return f.Close()
}

// outside are programs that have sluice from where everybody gets it.
var outside = []struct {
	name    string
	modules []string // required, beside the root
	text    string
	prints  string
	only    []string // the modules that it may list; none: any
	without string   // a module that it must not list
}{
	{
		name: "core", prints: "5 of 7 allowed", only: []string{"example.org/core", root, "pgregory.net/rapid"},
		text: `package main

import (
	"context"
	"fmt"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/memstore"
)

func main() {
	logins := sluice.Must(sluice.New(memstore.New(memstore.Options{}), "login", sluice.PerMinute(5)))
	allowed := 0
	for range 7 {
		if d := sluice.Must(logins.Take(context.Background(), "ada", 1)); d.Allowed {
			allowed++
		}
	}
	fmt.Println(allowed, "of 7 allowed")
}
`,
	},
	{
		name: "goredis", modules: []string{"redisstore/goredis"}, prints: "done", without: "github.com/redis/rueidis",
		text: `package main

import (
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/redisstore/goredis"
)

func main() {
	_ = func(client *redis.Client) (*redisstore.Store, error) { return goredis.New(client, redisstore.Options{}) }
	fmt.Println("done")
}
`,
	},
	{
		name: "all", modules: []string{"config", "redisstore/rueidisstore", "grpclimit", "metrics", "adapters"}, prints: "done",
		text: `package main

import (
	"fmt"

	"github.com/gin-gonic/gin"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/adapters/ginlimit"
	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/grpclimit"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/metrics"
	"github.com/sluicegate/sluice/redisstore/rueidisstore"
)

func main() {
	file := sluice.Must(config.Parse("rules.yaml", []byte("rules: [{name: api, by: ip, limits: 5/min}]")))
	limit := sluice.Must(httplimit.New(httplimit.Options{Store: memstore.New(memstore.Options{}), Policy: file.Policy}))
	gin.SetMode(gin.ReleaseMode)
	gin.New().Use(ginlimit.New(limit))
	_, _, _ = grpclimit.New, metrics.New, rueidisstore.Open
	fmt.Println("done")
}
`,
	},
}

// useOutside builds and runs programs that require the modules by the version.
func (r *release) useOutside(ctx context.Context) error {
	env, err := r.fromProxy(ctx)
	if err != nil {
		return err
	}
	for _, p := range outside {
		dir := filepath.Join(r.work, "outside", p.name)
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return err
		}
		for name, text := range map[string]string{"go.mod": "module example.org/" + p.name + "\n\ngo 1.26.0\n", "main.go": p.text} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				return err
			}
		}
		args := []string{"get", root + "@" + r.version}
		for _, m := range p.modules {
			args = append(args, path.Join(root, m)+"@"+r.version)
		}
		for _, do := range [][]string{args, {"mod", "tidy"}, {"vet", "."}} {
			if _, err := output(ctx, dir, env, "go", do...); err != nil {
				return err
			}
		}
		said, err := output(ctx, dir, env, "go", "run", ".")
		if err != nil {
			return err
		}
		if said != p.prints {
			return fmt.Errorf("%s prints %q, want %q", p.name, said, p.prints)
		}
		used, err := output(ctx, dir, env, "go", "list", "-m", "-f", "{{.Path}}", "all")
		if err != nil {
			return err
		}
		list := strings.Fields(used)
		if p.only != nil && !slices.Equal(list, p.only) || p.without != "" && slices.Contains(list, p.without) {
			return fmt.Errorf("%s lists the modules %v", p.name, list)
		}
		fmt.Printf("   %s: %s; %d modules\n", p.name, said, len(list))
	}
	return nil
}

// nextRoot compiles each other module of this version with a later root, as a user may have it who
// updates the root alone.
func (r *release) nextRoot(ctx context.Context) error {
	const next = "v1.99.0"
	env, err := r.fromProxy(ctx)
	if err != nil {
		return err
	}
	if err := r.put(root, r.source, next); err != nil {
		return err
	}
	for _, m := range r.modules {
		if m == "" {
			continue
		}
		dir := filepath.Join(r.source, filepath.FromSlash(m))
		for _, do := range [][]string{{"mod", "edit", "-require=" + root + "@" + next}, {"build", "./..."}} {
			if _, err := output(ctx, dir, env, "go", do...); err != nil {
				return fmt.Errorf("%s: %w", m, err)
			}
		}
	}
	return nil
}

// install runs the line of the documentation.
func (r *release) install(ctx context.Context) error {
	env, err := r.fromProxy(ctx)
	if err != nil {
		return err
	}
	bin := filepath.Join(r.work, "bin")
	env = append(env, "GOBIN="+bin)
	if _, err := output(ctx, r.work, env, "go", "install", root+"/server/cmd/sluice@"+r.version); err != nil {
		return err
	}
	said, err := output(ctx, r.work, nil, filepath.Join(bin, "sluice"), "version")
	if err == nil && !strings.HasPrefix(said, "sluice "+r.version+" ") {
		err = fmt.Errorf("the program says %q, want the version %s", said, r.version)
	}
	fmt.Println("   " + said)
	return err
}
