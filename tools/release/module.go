// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
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
	for _, m := range modules {
		dir := filepath.Join(r.source, filepath.FromSlash(m))
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err != nil {
			return err
		}
		for _, other := range modules {
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
		if err := r.put(path.Join(root, m), dir); err != nil {
			return err
		}
		fmt.Println("   tag", tag)
	}
	return nil
}

// put writes the files by which a proxy serves a version.
func (r *release) put(name, dir string) error {
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
		"list": []byte(r.version + "\n"), r.version + ".mod": text, r.version + ".info": []byte(`{"Version": "` + r.version + `"}`),
	} {
		if err := os.WriteFile(filepath.Join(to, file), data, 0o600); err != nil {
			return err
		}
	}
	f, err := os.Create(filepath.Join(to, r.version+".zip"))
	if err != nil {
		return err
	}
	if err := zip.CreateFromDir(f, module.Version{Path: name, Version: r.version}, dir); err != nil {
		return err
	}
	return f.Close()
}

// outside is a program that has sluice from where everybody gets it.
const outside = `package main

import (
	"context"
	"fmt"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/adapters/ginlimit"
	"github.com/sluicegate/sluice/httplimit"
	"github.com/sluicegate/sluice/memstore"
	"github.com/sluicegate/sluice/policy"
	"github.com/sluicegate/sluice/redisstore"
	"github.com/sluicegate/sluice/redisstore/goredis"
)

func main() {
	store := memstore.New(memstore.Options{})
	logins := sluice.Must(sluice.New(store, "login", sluice.PerMinute(5)))
	allowed := 0
	for range 7 {
		if d := sluice.Must(logins.Take(context.Background(), "ada", 1)); d.Allowed {
			allowed++
		}
	}
	limit := sluice.Must(httplimit.Limit(store, "api", policy.IP(), sluice.PerMinute(5)))
	gin.SetMode(gin.ReleaseMode)
	gin.New().Use(ginlimit.New(limit))
	_ = func(client *redis.Client) (*redisstore.Store, error) {
		return goredis.New(client, redisstore.Options{})
	}
	fmt.Println(allowed, "of 7 allowed")
}
`

// useOutside builds and runs a program that requires the modules by the version.
func (r *release) useOutside(ctx context.Context) error {
	env, err := r.fromProxy(ctx)
	if err != nil {
		return err
	}
	dir := filepath.Join(r.work, "outside")
	if err := os.Mkdir(dir, 0o750); err != nil {
		return err
	}
	for name, text := range map[string]string{"go.mod": "module example.org/outside\n\ngo 1.26.0\n", "main.go": outside} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	args := []string{"get"}
	for _, m := range modules {
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
	if want := "5 of 7 allowed"; said != want {
		return fmt.Errorf("the program says %q, want %q", said, want)
	}
	used, err := output(ctx, dir, env, "go", "list", "-m", "-f", "{{.Path}} {{.Version}}{{with .Replace}} replaced{{end}}", root+"/...")
	if err != nil {
		return err
	}
	fmt.Println("   " + strings.ReplaceAll(used, "\n", "\n   ") + "\n   " + said)
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
	if _, err := output(ctx, r.work, env, "go", "install", root+"/cmd/sluice@"+r.version); err != nil {
		return err
	}
	said, err := output(ctx, r.work, nil, filepath.Join(bin, "sluice"), "version")
	if err == nil && !strings.HasPrefix(said, "sluice "+r.version+" ") {
		err = fmt.Errorf("the program says %q, want the version %s", said, r.version)
	}
	fmt.Println("   " + said)
	return err
}
