// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"cmp"

	"go.yaml.in/yaml/v4"

	"github.com/sluicegate/sluice/config/internal/document"
)

// RLS is how a listener answers by Envoy's Rate Limit Service.
type RLS struct {
	Files []string // files of envoyproxy/ratelimit, or folders of them; none: rules alone
	Merge bool     // several files may have one domain
	// Shadow passes all requests: only the answers about single descriptors deny. Quota makes all
	// limits deny a request only together.
	Shadow, Quota bool
	// Together takes the hits of all descriptors of a request, or none.
	Together bool
	// Headers adds three header fields to the response, of these names.
	Headers                                   bool
	LimitHeader, RemainingHeader, ResetHeader string
	Metadata                                  bool // answers have dynamic metadata
	// EnvoyNames exports the statistics of envoyproxy/ratelimit under its names in Prometheus.
	EnvoyNames bool
}

// Scope returns the scope of the limits in files. No rule can have this name.
func (*RLS) Scope() string { return "rls:hits" }

// rls reads the settings of a listener for the Rate Limit Service.
func (d *decoder) rls(n *yaml.Node, r *RLS) {
	d.Mapping(n, "rls",
		document.Key("files", "Files in the format of envoyproxy/ratelimit, or folders of them (default: none; the rules apply).", func(n *yaml.Node) {
			d.Each(n, "a file", func(n *yaml.Node, s string) {
				if s == "" {
					d.Fault(n, "files has an empty name; name a file or a folder")
				}
				r.Files = append(r.Files, s)
				d.name(n, "files", s)
			})
		}),
		d.Flag("merge", "Several files may have limits of one domain (default false).", &r.Merge),
		d.Flag("shadow", "No request is denied; the statuses of its descriptors show what would be (default false).", &r.Shadow),
		d.Flag("quota", "A request is denied only if all its limits deny it, as with quota_mode in each (default false).", &r.Quota),
		d.Flag("together", "The hits of all descriptors of a request are taken, or none if one of its limits denies it (default false).", &r.Together),
		document.Key("headers", "Header fields added to the response: true, or their names.", func(n *yaml.Node) { d.rlsHeaders(n, r) }),
		d.Flag("metadata", "Answers have dynamic metadata (default false).", &r.Metadata),
		d.Flag("envoy_names", "The metrics have the statistics of envoyproxy/ratelimit under its names (default false).", &r.EnvoyNames),
	)
	if r.Together && r.Quota {
		d.Fault(document.Child(n, "together"), "together has no effect with quota, by which some limits may deny a request that passes; remove one of them")
	}
}

// rlsHeaders reads which header fields are added to the response.
func (d *decoder) rlsHeaders(n *yaml.Node, r *RLS) {
	flag := d.Flag("headers", "", &r.Headers)
	if d.MappingOr(n, "headers", flag.Read,
		d.Word("limit", "Name of the field of the limit (default RateLimit-Limit).", &r.LimitHeader),
		d.Word("remaining", "Name of the field of the units left (default RateLimit-Remaining).", &r.RemainingHeader),
		d.Word("reset", "Name of the field of the seconds until the window ends (default RateLimit-Reset).", &r.ResetHeader),
	) {
		r.Headers = true
	}
	r.LimitHeader, r.RemainingHeader, r.ResetHeader = cmp.Or(r.LimitHeader, "RateLimit-Limit"), cmp.Or(r.RemainingHeader, "RateLimit-Remaining"), cmp.Or(r.ResetHeader, "RateLimit-Reset")
}
