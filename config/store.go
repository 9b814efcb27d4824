// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/sluicegate/sluice/config/internal/document"
	"github.com/sluicegate/sluice/redisstore/redisurl"
)

func (d *decoder) store(n *yaml.Node, s *Store) {
	var memory, redis bool
	short := func(n *yaml.Node) {
		if strings.Contains(n.Value, "://") {
			d.Fault(n, "a store's URL stands under redis; use store: {redis: {url: redis://127.0.0.1:6379}}")
			return
		}
		var word string
		d.Choice(n, "store", &word, "memory")
	}
	mapped := d.MappingOr(n, "store", short,
		document.Key("memory", "Counters in this process.", func(n *yaml.Node) {
			memory = true
			d.Mapping(n, "memory", d.Number("max_keys", "Maximum number of keys; above it the least recently taken keys are evicted (default 1048576).", 1, 1<<40, &s.MaxKeys), d.path("state", "File that keeps the counters over a restart.", &s.State))
		}),
		document.Key("redis", "Counters on Redis or Valkey, shared by all that use the same prefix.", func(n *yaml.Node) {
			redis = true
			before, prefixed := d.Count(), false
			d.Mapping(n, "redis",
				document.Key("url", "redis://HOST, redis-sentinel://HOST,HOST/MASTER or redis-cluster://HOST,HOST, with TLS rediss:// and so on; env:NAME reads it from a variable.", func(n *yaml.Node) { prefixed = d.storeURL(n, s) }),
				d.Word("prefix", "Prefix of all keys (default sluice).", &s.Prefix),
			)
			if err := redisurl.CheckPrefix(s.Prefix); err != nil {
				d.Fault(document.Child(n, "prefix"), "%v", err)
			}
			if prefixed && s.Prefix != "" {
				d.Fault(document.Child(n, "prefix"), "the url names a prefix already; use one of them")
			}
			if s.Redis == "" && d.Count() == before {
				d.Fault(n, "redis has no url; use url: redis://127.0.0.1:6379")
			}
		}),
	)
	if mapped && memory == redis {
		d.Fault(n, "a store is memory or redis; use one of them")
	}
}

// storeURL reads the URL of the servers, in the form of --store. The URL or its user may come
// from the environment, which is read at the start. It reports whether the URL has a prefix.
func (d *decoder) storeURL(n *yaml.Node, s *Store) (prefixed bool) {
	m := d.Enter(n)
	if m == nil {
		return false
	}
	if m.Kind == yaml.SequenceNode {
		d.Fault(n, "url is a list; use one that names all servers, such as redis-cluster://10.0.0.1,10.0.0.2")
		return false
	}
	text, ok := d.Text(m, "url")
	if !ok {
		return false
	}
	target, err := redisurl.ParseLine(text, nil)
	for _, err := range flatten(err) {
		d.Fault(n, "%v", err)
	}
	s.Redis = text
	d.name(n, "url", text)
	return target != nil && target.Parameters["prefix"] != ""
}
