// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package nginx

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// ingressKind matches a text of Kubernetes objects, and no nginx configuration.
var ingressKind = regexp.MustCompile(`(?m)^\s*(- )?["']?kind["']?\s*:\s*["']?(Ingress|List|IngressList)\b`)

// object holds the fields of a Kubernetes object that limits need.
type object struct {
	Kind     string
	Metadata struct {
		Name, Namespace string
		Annotations     yaml.Node
	}
	Spec struct {
		Rules []struct {
			Host string
			HTTP struct {
				Paths []struct {
					Path     string
					PathType string `yaml:"pathType"`
				}
			}
		}
		DefaultBackend *yaml.Node `yaml:"defaultBackend"`
	}
	Items []object
}

const (
	prefix    = "nginx.ingress.kubernetes.io/"
	maxPaths  = 10_000
	maxObject = 10_000
)

func (c *converter) ingresses(f File) error {
	text := f.Text
	d := yaml.NewDecoder(strings.NewReader(text))
	for range maxObject {
		var o object
		err := d.Decode(&o)
		switch {
		case errors.Is(err, io.EOF):
			c.note(nil, "no upstream: the addresses of services are not in the file; write upstream into the result, or sluice serve answers with its sample app")
			return nil
		case err != nil:
			line, what := 1, err.Error()
			if at, ok := errors.AsType[*yaml.LoadError](err); ok {
				line, what = at.Mark.Line, at.Message
				if at.Stage == yaml.ReaderStage { // the reader counts bytes only
					line = 1 + strings.Count(text[:min(at.Mark.Index, len(text))], "\n")
				}
			}
			return &SyntaxError{f.Name, line, "is not a list of Kubernetes objects: " + what}
		}
		c.object(&o)
	}
	return &SyntaxError{f.Name, 1, fmt.Sprintf("more than %d objects; convert a part of them", maxObject)}
}

func (c *converter) object(o *object) {
	for i := range o.Items {
		if len(o.Items[i].Items) == 0 {
			c.object(&o.Items[i])
		}
	}
	if o.Kind == "Ingress" {
		c.ingress(o)
	}
}

// annotations are an Ingress's annotations of limits, with their lines.
type annotations struct {
	values map[string]string
	lines  map[string]*directive // places, not nginx directives
}

func (c *converter) annotations(n *yaml.Node) annotations {
	a := annotations{map[string]string{}, map[string]*directive{}}
	for i := 0; i+1 < len(n.Content) && n.Kind == yaml.MappingNode; i += 2 {
		name, ours := strings.CutPrefix(n.Content[i].Value, prefix)
		if ours && strings.HasPrefix(name, "limit-") {
			a.values[name], a.lines[name] = n.Content[i+1].Value, &directive{file: c.files[0].Name, line: n.Content[i].Line}
		}
	}
	return a
}

// last returns the later of a line and an annotation's line.
func (a annotations) last(line *directive, name string) *directive {
	if line != nil && line.line > a.lines[name].line {
		return line
	}
	return a.lines[name]
}

// number returns the value of an annotation, or 0 if there is none.
func (c *converter) number(a annotations, name string) int64 {
	s, there := a.values[name]
	if !there {
		return 0
	}
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 32)
	if err != nil || n < 0 {
		c.note(a.lines[name], "%s: %q is not a number; not kept", name, s)
		return 0
	}
	return n
}

func (c *converter) ingress(o *object) {
	a := c.annotations(&o.Metadata.Annotations)
	if len(a.values) == 0 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(a.values)) {
		switch name {
		case "limit-rps", "limit-rpm", "limit-burst-multiplier", "limit-whitelist", "limit-allowlist", "limit-connections":
		case "limit-rate", "limit-rate-after":
			c.note(a.lines[name], "%s: limits the bandwidth of one response; not kept", name)
		default:
			c.note(a.lines[name], "%s: is not known; not kept", name)
		}
	}
	name := o.Metadata.Name
	if o.Metadata.Namespace != "" {
		name = o.Metadata.Namespace + "." + name
	}
	z := &zone{name: name, by: []string{"ip/32/128"}, share: true, exempt: c.allowlist(a)}
	var limits []limit
	var line *directive // of the last of them
	multiplier := cmp.Or(c.number(a, "limit-burst-multiplier"), 5)
	for _, each := range []struct {
		name string
		of   func(int64) rate
	}{{"limit-rps", perSecond}, {"limit-rpm", perMinute}} {
		if n := c.number(a, each.name); n > 0 {
			limits = append(limits, limitOf(each.of(n), n*multiplier, 0, true))
			line = a.last(line, each.name)
		}
	}
	if len(limits) == 2 {
		// Each has a name of its own, as their windows may be equal.
		limits[0].text, limits[1].text = `"rps: `+limits[0].text+`"`, `"rpm: `+limits[1].text+`"`
	}
	inFlight := min(c.number(a, "limit-connections"), 65535)
	if inFlight > 0 {
		line = a.last(line, "limit-connections")
	}
	if line == nil {
		return
	}
	ruleName := ""
	for _, g := range c.paths(o, line) {
		if ruleName != "" {
			c.note(line, "ingress %s: its hosts have different paths; they share a budget in ingress-nginx, and have one each here", name)
		}
		ruleName = c.name(name)
		c.rules = append(c.rules, rule{
			name: ruleName, origin: []*directive{line}, budget: budget{zone: z, inFlight: inFlight, status: "503"}, limits: limits, hosts: g.hosts, paths: g.paths,
		})
	}
	c.note(line, "ingress %s: ingress-nginx has this limit in each of its replicas; here it is one for all that share a store", name)
}

func (c *converter) allowlist(a annotations) (networks []string) {
	for _, name := range []string{"limit-whitelist", "limit-allowlist"} {
		for item := range strings.SplitSeq(a.values[name], ",") {
			item = strings.TrimSpace(item)
			if item == "" {
				continue
			}
			if p, ok := network(item); ok {
				networks = append(networks, p)
			} else {
				c.note(a.lines[name], "%s: %q is not a network; not kept", name, item)
			}
		}
	}
	return networks
}

// paths groups the hosts of an Ingress with the same paths.
func (c *converter) paths(o *object, line *directive) (groups []area) {
	n := 0
	var listed []map[string]bool // the hosts of each group
	for _, r := range o.Spec.Rules {
		var g area
		if r.Host != "" {
			g.hosts = []string{strings.ToLower(r.Host)}
		}
		for _, p := range r.HTTP.Paths {
			if n++; n > maxPaths {
				c.note(line, "ingress %s: more than %d paths; the others are not kept", o.Metadata.Name, maxPaths)
				break
			}
			path := escape("/" + strings.TrimPrefix(p.Path, "/"))
			switch {
			case p.Path != "" && !strings.HasPrefix(p.Path, "/"):
				c.note(line, "ingress %s: the path %q does not start with a slash; not kept", o.Metadata.Name, p.Path)
				continue
			case p.PathType == "Exact":
				g.paths = append(g.paths, exactly(path))
			case strings.ContainsAny(p.Path, "()*$?^|[]\\+"):
				c.note(line, "ingress %s: the path %q looks like a regular expression, which a path in a rule is not; not kept", o.Metadata.Name, p.Path)
				continue
			case path == "/":
				g.paths = append(g.paths, path)
			default: // a Prefix "/a/" also matches "/a"
				path = strings.TrimSuffix(path, "/")
				g.paths = append(g.paths, path, path+"/")
			}
		}
		if len(r.HTTP.Paths) > 0 && len(g.paths) == 0 {
			continue
		}
		if slices.Contains(g.paths, "/") {
			g.paths = nil
		}
		slices.Sort(g.paths)
		g.paths = slices.Compact(g.paths)
		i := slices.IndexFunc(groups, func(o area) bool { return slices.Equal(o.paths, g.paths) })
		switch {
		case i < 0:
			groups, listed = append(groups, g), append(listed, nil)
		case len(g.hosts) == 0 || len(groups[i].hosts) == 0:
			groups[i].hosts = nil
		default:
			groups[i].hosts = union(groups[i].hosts, g.hosts, &listed[i])
		}
	}
	if len(o.Spec.Rules) == 0 {
		groups = append(groups, area{})
	}
	return groups
}
