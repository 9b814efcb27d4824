// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package serve

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/regular"
	"github.com/sluicegate/sluice/redisstore/redisurl"
	"github.com/sluicegate/sluice/redisstore/rueidisstore"
	"github.com/sluicegate/sluice/server/internal/front/api"
	"github.com/sluicegate/sluice/server/internal/front/rls"
	"github.com/sluicegate/sluice/server/internal/gateway/certificate"
	"github.com/sluicegate/sluice/server/internal/lint"
	"github.com/sluicegate/sluice/server/internal/overrides"
	"github.com/sluicegate/sluice/server/internal/token"
)

// CheckFiles returns the faults of the files named in a configuration that would make a start
// fail. It writes nothing, so it misses folders that cannot be written to.
func CheckFiles(c *config.Config) error {
	problems := make(map[config.NamedFile][]error)
	add := func(key, path string, err error) {
		if errors.Is(err, fs.ErrNotExist) && key != "url" {
			err = fmt.Errorf("%w%s", err, started(path))
		}
		if at := (config.NamedFile{Key: key, Path: path}); err != nil {
			problems[at] = append(problems[at], err)
		}
	}
	for i := range c.Listen {
		if l := &c.Listen[i]; l.TokensFile != "" {
			add("tokens_file", l.TokensFile, api.CheckTokens(l.TokensFile, c.PolicyOf(l)))
		}
		if l := &c.Listen[i]; l.CertFile != "" {
			_, err := certificate.Load(l.CertFile, l.KeyFile, certificate.Options{})
			add("cert", l.CertFile, err)
			if l.ClientCAFile != "" {
				add("client_ca", l.ClientCAFile, certificate.CheckClientCA(l.ClientCAFile))
			}
		}
	}
	for i := range c.Listen {
		for name, err := range rls.Check(&c.Listen[i].RLS) {
			add("files", name, err)
		}
	}
	if t := c.Tokens; t != nil {
		_, err := token.New(tokenOptions(t, nil, nil))
		for key, path := range map[string]string{"jwks_file": t.JWKS, "hmac_file": t.HMAC, "key_file": t.Key} {
			if path != "" { // one of the three is set
				add(key, path, err)
			}
		}
	}
	_, err := ReadToken(c.Admin.TokenFile)
	add("token_file", c.Admin.TokenFile, err)
	if name := c.Admin.OverridesFile; name != "" {
		err := checkFolder(name)
		if err == nil {
			_, err = overrides.Read(name)
		}
		add("overrides_file", name, err)
	}
	if name := c.Admin.AuditFile; !regular.Given(name) {
		add("audit_file", name, checkFile(name))
	}
	add("file", c.DecisionLog.File, checkLog(c.DecisionLog.File))
	add("file", c.AccessLog.File, checkLog(c.AccessLog.File))
	if name := c.DecisionLog.SecretFile; name != "" {
		_, err := readSecret("secret file", name)
		add("secret_file", name, err)
	}
	add("state", c.Store.State, checkFile(c.Store.State))
	if c.Store.Redis != "" {
		target, err := redisurl.ParseLine(c.Store.Redis, nil)
		if err == nil {
			_, err = rueidisstore.ClientOption(target)
			_, err2 := rueidisstore.Secret(target)
			err = errors.Join(err, err2)
		}
		add("url", c.Store.Redis, err)
	}
	return c.NamedFaults(problems)
}

// FileWarnings returns the warnings about the files named in a configuration: keys of Envoy's
// limits that have no effect where they stand.
func FileWarnings(c *config.Config) (all []lint.Warning) {
	for i := range c.Listen {
		for _, f := range rls.Notes(&c.Listen[i].RLS) {
			w := lint.Warning{File: f.File, Line: f.Line, Column: f.Column, Problem: f.Problem}
			if !slices.Contains(all, w) { // listeners may have the same files
				all = append(all, w)
			}
		}
	}
	return all
}

// checkFile returns why a file can be neither opened nor made, or nil if name is empty.
func checkFile(name string) error {
	if name == "" {
		return nil
	}
	if err := checkFolder(name); err != nil {
		return err
	}
	f, _, err := regular.Open(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	return f.Close()
}

// checkFolder returns why a file cannot be in its folder.
func checkFolder(name string) error {
	folder := filepath.Dir(name)
	info, err := os.Stat(folder)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: no such folder; make it%s", folder, started(name))
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s: is no folder; name a file in one", folder)
	}
	return nil
}

// started returns the folder at which a relative path begins, as the end of an error.
func started(path string) string {
	here, err := os.Getwd()
	if err != nil || filepath.IsAbs(path) {
		return ""
	}
	return "; relative paths begin where sluice is started, which is " + here + " here"
}
