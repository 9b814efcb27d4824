// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"embed"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// programs are those of users: each has a folder with main.go.txt, which is no part of this module.
//
//go:embed outside
var programs embed.FS

// outside says what the programs need and do.
var outside = []struct {
	name    string
	modules []string // required, beside the root
	prints  string
	only    []string // the modules that it may list; none: any
	without string   // a module that it must not list
}{
	{name: "core", prints: "5 of 7 allowed", only: []string{"example.org/core", root, "pgregory.net/rapid"}},
	{name: "middleware", prints: "200 \"api\";q=2;w=3600\n200 \"api\";q=2;w=3600\n429 \"api\";q=2;w=3600", only: []string{"example.org/middleware", root, "pgregory.net/rapid"}},
	{name: "goredis", modules: []string{"redisstore/goredis"}, prints: "done", without: "github.com/redis/rueidis"},
	{name: "gin", modules: []string{"adapters"}, prints: "200\n200\n429"},
	{name: "grpc", modules: []string{"grpclimit"}, prints: "OK\nOK\nResourceExhausted"},
	{name: "rules", modules: []string{"config", "redisstore/rueidisstore", "metrics"}, prints: "404\n404\n429"},
}

// useOutside builds and runs programs that require the modules by the version.
func (r *release) useOutside(ctx context.Context) error {
	env, err := r.fromTags(ctx)
	if err != nil {
		return err
	}
	for _, p := range outside {
		dir := filepath.Join(r.work, "outside", p.name)
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return err
		}
		text, err := programs.ReadFile("outside/" + p.name + "/main.go.txt")
		if err != nil {
			return err
		}
		for name, text := range map[string][]byte{"go.mod": []byte("module example.org/" + p.name + "\n\ngo " + r.language + "\n"), "main.go": text} {
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
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
		fmt.Printf("   %s: %s; %d modules\n", p.name, strings.ReplaceAll(said, "\n", ", "), len(list))
	}
	return nil
}

// nextRoot compiles each other module of this version with a later root, as a user may have it who
// updates the root alone.
func (r *release) nextRoot(ctx context.Context) error {
	const next = "v1.99.0"
	env, err := r.fromTags(ctx)
	if err != nil {
		return err
	}
	if _, err := output(ctx, r.source, nil, "git", "tag", next, r.version+"^{commit}"); err != nil {
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
	env, err := r.fromTags(ctx)
	if err != nil {
		return err
	}
	bin := filepath.Join(r.work, "bin")
	env = append(env, "GOBIN="+bin)
	if _, err := output(ctx, r.work, env, "go", "install", root+"/server/cmd/sluice@"+r.version); err != nil {
		return err
	}
	return r.knows(ctx, filepath.Join(bin, "sluice"))
}

// knows checks that a program says the version.
func (r *release) knows(ctx context.Context, program string) error {
	said, err := output(ctx, r.work, nil, program, "version")
	if err == nil && !strings.HasPrefix(said, "sluice "+r.version+" ") {
		err = fmt.Errorf("%s says %q, want the version %s", program, said, r.version)
	}
	fmt.Println("   " + said)
	return err
}
