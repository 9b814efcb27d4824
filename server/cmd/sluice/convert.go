// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluicegate/sluice/config"
	"github.com/sluicegate/sluice/internal/regular"
	"github.com/sluicegate/sluice/server/internal/cli"
	"github.com/sluicegate/sluice/server/internal/front/rls"
	"github.com/sluicegate/sluice/server/internal/front/rls/convert"
	"github.com/sluicegate/sluice/server/internal/front/rls/ratelimit"
	"github.com/sluicegate/sluice/server/internal/nginx"
)

var convertCommand = cli.Command{
	Name: "convert", Args: "nginx|envoy FILE...", Summary: "turn limits of nginx or Envoy into a configuration",
	Doc:   "With nginx it writes the request limits of an nginx configuration, its listeners and its upstreams as sluice's file to standard output; or those of Ingress objects for ingress-nginx. What cannot be kept is noted on standard error, line by line: without a note, the same requests are limited as before. The FILEs are one configuration: nginx.conf with the files that it includes, or a folder with all of them, or - for standard input. It exits with 1 if a FILE cannot be read or there is no limit.\n\n    nginx -T | sluice convert nginx - > sluice.yaml\n    sluice convert nginx /etc/nginx > sluice.yaml\n\nWith envoy the FILEs are limits of envoyproxy/ratelimit, or folders of them, and become rules by descriptor: see docs/envoy.md.\n\n    sluice convert envoy /srv/runtime_data/current/ratelimit/config > sluice.yaml",
	Flags: []cli.Flag{{Name: "json", Doc: "write JSON with the file and the notes"}},
	Run:   runConvert,
}

// runConvert converts the configurations of other programs.
func runConvert(_ context.Context, c *cli.Call) error {
	if len(c.Args) < 2 || c.Args[0] != "nginx" && c.Args[0] != "envoy" {
		return cli.Usagef("expected nginx or envoy, and files, got %q", c.Args)
	}
	if c.Args[0] == "envoy" {
		return convertEnvoy(c)
	}
	var files []nginx.File
	for _, name := range c.Args[1:] {
		found, err := nginxFiles(c, name)
		if err != nil {
			return err
		}
		files = append(files, found...)
	}
	yaml, notes, err := nginx.Convert(files, problemsOf)
	return converted(c, yaml, notes, err)
}

// convertEnvoy converts files of envoyproxy/ratelimit.
func convertEnvoy(c *cli.Call) error {
	paths, err := rls.Paths(c.Args[1:])
	if err != nil {
		return err
	}
	files := make([]ratelimit.File, len(paths))
	for i, path := range paths {
		found, err := nginxFiles(c, path)
		if err != nil {
			return err
		}
		files[i] = ratelimit.File{Name: found[0].Name, Data: []byte(found[0].Text)}
	}
	yaml, faults, err := convert.Convert(files, problemsOf)
	notes := make([]nginx.Note, len(faults))
	for i, f := range faults {
		notes[i] = nginx.Note{File: f.File, Line: f.Line, Text: f.Problem}
	}
	return converted(c, yaml, notes, err)
}

// converted shows a converted configuration and its notes.
func converted(c *cli.Call, yaml []byte, notes []nginx.Note, err error) error {
	if c.Given("json") && err == nil {
		return c.JSON(convertDoc{string(yaml), append([]nginx.Note{}, notes...)})
	}
	for _, note := range notes {
		if _, err := io.WriteString(c.Stderr, note.String()+"\n"); err != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	return c.Print(string(yaml))
}

// maxNginxFiles is the most files of a folder that are read.
const maxNginxFiles = 10_000

// nginxFiles reads a file, standard input, or the files of a folder. If the folder has an
// nginx.conf, the other files are parts of it.
func nginxFiles(c *cli.Call, name string) (files []nginx.File, err error) {
	read := func(name string, from io.Reader, part bool) error {
		data, err := io.ReadAll(io.LimitReader(from, nginx.MaxBytes+1))
		if err != nil {
			return fmt.Errorf("convert: read %s: %w", name, err)
		}
		files = append(files, nginx.File{Name: name, Text: string(data), Part: part})
		return nil
	}
	open := func(name string, part bool) error {
		f, err := regular.OpenGiven(name)
		if err != nil {
			return err
		}
		defer f.Close() //nolint:errcheck // it was only read
		return read(name, f, part)
	}
	if name == "-" {
		return files, read(standardInput, c.Stdin, false)
	}
	if info, err := os.Stat(name); err != nil || !info.IsDir() {
		return files, open(name, false) // or the error of a missing file
	}
	main := filepath.Join(name, "nginx.conf")
	_, err = os.Stat(main)
	whole := err == nil
	err = filepath.WalkDir(name, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		part := whole && path != main
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() || strings.HasPrefix(filepath.Base(path), ".") {
			return nil //nolint:nilerr // nginx reports it if it includes the file
		}
		if len(files) >= maxNginxFiles {
			return fmt.Errorf("convert: %s: more than %d files; name those of the configuration", name, maxNginxFiles)
		}
		if err := open(path, part); err != nil && !part {
			return err // the include of any other unreadable file becomes a note
		}
		return nil
	})
	return files, err
}

// convertDoc is a converted configuration as JSON.
type convertDoc struct {
	YAML  string       `json:"yaml"`
	Notes []nginx.Note `json:"notes"`
}

// problemsOf returns the faults of a file of rules.
func problemsOf(yaml []byte) (problems []string) {
	_, err := config.Parse("", yaml)
	if faults, ok := errors.AsType[config.Faults](err); ok {
		for _, f := range faults {
			problems = append(problems, f.Problem)
		}
	}
	return problems
}
