// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/sluicegate/sluice/redisstore/redisurl"
)

func (d *decoder) store(n *yaml.Node, s *Store) {
	var memory, redis bool
	short := func(n *yaml.Node) {
		if strings.Contains(n.Value, "://") {
			d.fault(n, "a store's URL stands under redis; use store: {redis: {url: redis://127.0.0.1:6379}}")
			return
		}
		var word string
		d.choice(n, "store", &word, "memory")
	}
	mapped := d.mappingOr(n, "store", short,
		field{"memory", func(n *yaml.Node) {
			memory = true
			d.mapping(n, "memory", d.number("max_keys", 1, 1<<40, &s.MaxKeys), d.path("state", &s.State))
		}},
		field{"redis", func(n *yaml.Node) {
			redis = true
			before, prefixed := len(d.faults), false
			d.mapping(n, "redis",
				field{"url", func(n *yaml.Node) { prefixed = d.storeURL(n, s) }},
				d.word("prefix", &s.Prefix),
			)
			if err := redisurl.CheckPrefix(s.Prefix); err != nil {
				d.fault(child(n, "prefix"), "%v", err)
			}
			if prefixed && s.Prefix != "" {
				d.fault(child(n, "prefix"), "the url names a prefix already; use one of them")
			}
			if s.Redis == "" && len(d.faults) == before {
				d.fault(n, "redis has no url; use url: redis://127.0.0.1:6379")
			}
		}},
	)
	if mapped && memory == redis {
		d.fault(n, "a store is memory or redis; use one of them")
	}
}

// storeURL reads the URL of the servers, in the form of --store. The URL or its user may come
// from the environment, which is read at the start. It reports whether the URL has a prefix.
func (d *decoder) storeURL(n *yaml.Node, s *Store) (prefixed bool) {
	m := d.enter(n)
	if m == nil {
		return false
	}
	if m.Kind == yaml.SequenceNode {
		d.fault(n, "url is a list; use one that names all servers, such as redis-cluster://10.0.0.1,10.0.0.2")
		return false
	}
	text, ok := d.text(m, "url")
	if !ok {
		return false
	}
	target, err := redisurl.ParseLine(text, nil)
	for _, err := range flatten(err) {
		d.fault(n, "%v", err)
	}
	s.Redis = text
	d.name(n, "url", text)
	return target != nil && target.Parameters["prefix"] != ""
}
