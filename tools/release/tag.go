// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// tag makes the commits and tags of the version in the copy, or takes those that are there.
//
// The first commit, tagged for the root, is one for the main branch: it has the version in changelog, chart
// and kustomization. Each further module has a commit on top, which the main branch does not get: it takes out
// the replacements and requires the others by the version, whose tags are there by then.
func (r *release) tag(ctx context.Context) error {
	if _, err := output(ctx, r.source, nil, "git", "rev-parse", "--quiet", "--verify", "refs/tags/"+r.version); err == nil {
		if r.publish {
			return fmt.Errorf("the tag %s is there already; a tag is never moved", r.version)
		}
		fmt.Println("   the tags are there already")
		return r.checkTags(ctx)
	}
	if err := r.commit(ctx, "release: "+r.version, r.version, r.stamp); err != nil {
		return err
	}
	for _, m := range r.modules {
		if m == "" {
			continue
		}
		subject := m + ": require the modules of " + r.version
		if err := r.commit(ctx, subject, path.Join(m, r.version), func(ctx context.Context) error { return r.require(ctx, m) }); err != nil {
			return err
		}
	}
	return r.checkTags(ctx)
}

// commit commits a change and tags it.
func (r *release) commit(ctx context.Context, subject, tag string, change func(context.Context) error) error {
	if err := change(ctx); err != nil {
		return err
	}
	env, err := r.committer(ctx)
	if err != nil {
		return err
	}
	for _, do := range [][]string{{"add", "--all"}, {"commit", "--quiet", "--message", subject}, {"tag", "--annotate", "--message", subject, tag}} {
		if _, err := output(ctx, r.source, env, "git", do...); err != nil {
			return err
		}
	}
	fmt.Println("   tag", tag)
	return nil
}

// committer returns variables by which git knows who commits: who it is in the repository, or the authors.
func (r *release) committer(ctx context.Context) ([]string, error) {
	name, mail := "The sluice authors", "sluice@example.org"
	if n, err := output(ctx, r.repository, nil, "git", "config", "user.name"); err == nil {
		name = n
		if mail, err = output(ctx, r.repository, nil, "git", "config", "user.email"); err != nil {
			return nil, err
		}
	} else if r.publish {
		return nil, errors.New("git does not know who you are; run: git config user.name NAME, git config user.email ADDRESS")
	}
	return []string{"GIT_AUTHOR_NAME=" + name, "GIT_AUTHOR_EMAIL=" + mail, "GIT_COMMITTER_NAME=" + name, "GIT_COMMITTER_EMAIL=" + mail}, nil
}

// stamps are what the release commit replaces, by file: each pattern is there once.
var stamps = map[string][]struct {
	old *regexp.Regexp
	new string // with VERSION, NUMBER (without the v) and DATE
}{
	"CHANGELOG.md": {{regexp.MustCompile(`(?m)^## Unreleased\n`), "## Unreleased\n\n## NUMBER - DATE\n"}},
	"deploy/helm/sluice/Chart.yaml": {
		{regexp.MustCompile(`(?m)^version: .*$`), "version: NUMBER"},
		{regexp.MustCompile(`(?m)^appVersion: .*$`), "appVersion: VERSION"},
	},
	"deploy/kubernetes/base/kustomization.yaml": {{regexp.MustCompile(`(?m)^    newTag: .*$`), "    newTag: VERSION"}},
}

// stamp writes the version into the files that have it.
func (r *release) stamp(context.Context) error {
	values := strings.NewReplacer("VERSION", r.version, "NUMBER", strings.TrimPrefix(r.version, "v"), "DATE", time.Now().UTC().Format(time.DateOnly))
	for name, all := range stamps {
		file := filepath.Join(r.source, filepath.FromSlash(name))
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		for _, s := range all {
			if n := len(s.old.FindAll(text, -1)); n != 1 {
				return fmt.Errorf("%s has %d lines like %s, want 1", name, n, s.old)
			}
			text = s.old.ReplaceAllLiteral(text, []byte(values.Replace(s.new)))
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// require makes a module what it is at its tag.
func (r *release) require(ctx context.Context, module string) error {
	env, err := r.fromTags(ctx)
	if err != nil {
		return err
	}
	dir := filepath.Join(r.source, filepath.FromSlash(module))
	text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return err
	}
	edit := []string{"mod", "edit"}
	for _, other := range r.modules {
		if name := path.Join(root, other); strings.Contains(string(text), "\nreplace "+name+" =>") {
			edit = append(edit, "-dropreplace="+name, "-require="+name+"@"+r.version)
		}
	}
	for _, do := range [][]string{edit, {"mod", "tidy"}} {
		if _, err := output(ctx, dir, env, "go", do...); err != nil {
			return err
		}
	}
	return nil
}

// checkTags checks that every module has its tag, and no replacement there, and leaves the copy at the
// last of them, where all modules require each other by the version.
func (r *release) checkTags(ctx context.Context) error {
	for _, m := range r.modules {
		text, err := output(ctx, r.source, nil, "git", "show", path.Join(m, r.version)+":"+path.Join(m, "go.mod"))
		if err != nil {
			return err
		}
		if strings.Contains(text, "\nreplace ") {
			return fmt.Errorf("%s replaces a module", path.Join(m, r.version))
		}
	}
	_, err := output(ctx, r.source, nil, "git", "checkout", "--quiet", path.Join(r.modules[len(r.modules)-1], r.version))
	return err
}

// fromTags lets go find sluice by the tags of the copy, as it finds them on the host, and everything else where
// it always is, with a module cache of its own.
func (r *release) fromTags(ctx context.Context) ([]string, error) {
	source, err := filepath.EvalSymlinks(r.source)
	if err != nil {
		return nil, err
	}
	ours := root + "," + root + "/*"
	return []string{
		"GONOPROXY=" + ours, "GONOSUMDB=" + ours, "GOMODCACHE=" + filepath.Join(r.work, "cache"), "GOFLAGS=-mod=mod", "GOWORK=off",
		"GIT_CONFIG_COUNT=1", "GIT_CONFIG_KEY_0=url.file://" + filepath.ToSlash(source) + ".insteadOf", "GIT_CONFIG_VALUE_0=https://" + root,
	}, ctx.Err()
}

// offer brings commits and tags into the repository, and says how they are pushed.
func (r *release) offer(ctx context.Context) error {
	if !r.publish {
		return nil
	}
	fetch := []string{"fetch", "--quiet", "--no-tags", r.source} // no others that point there
	for _, m := range r.modules {
		tag := path.Join(m, r.version)
		fetch = append(fetch, "refs/tags/"+tag+":refs/tags/"+tag)
	}
	if _, err := output(ctx, r.repository, nil, "git", fetch...); err != nil {
		return err
	}
	fmt.Printf("The commits and tags are in this repository: git show %s\nTo release, run\n\n  %s\n\nTo take them back, run\n\n  git tag --delete $(git tag --list '*%s')\n", r.version, r.pushes(), r.version)
	return nil
}

// pushes returns the command that publishes the commits and tags. GitHub starts no workflow for more than
// three tags at once, so the tag of the root, for which it starts one, comes behind the others.
func (r *release) pushes() string {
	push := "git push --atomic origin '" + r.version + "^{commit}:refs/heads/main'"
	for _, m := range r.modules {
		if m != "" {
			push += " " + path.Join(m, r.version)
		}
	}
	return push + " && git push origin " + r.version
}
