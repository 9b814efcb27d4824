// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"go.yaml.in/yaml/v4"

	"github.com/sluicegate/sluice"
	"github.com/sluicegate/sluice/config/internal/document"
	"github.com/sluicegate/sluice/policy"
)

// decoder reads a configuration.
type decoder struct {
	*document.Decoder
	limits  map[string]sluice.Limit // by text, as many rules have the same
	later   []func()                // read at the end of a level
	named   map[NamedFile]place
	listens []*yaml.Node // of Config.Listen
	claims  []claim      // in rules without faults; names in certificates, too

	profiles  []string            // of the current rule
	platforms map[string][]string // profiles of each rule that has any
}

// claim is a use of a token's claim, or of a certificate's name, in a rule.
type claim struct {
	node *yaml.Node
	of   policy.Part
}

func newDecoder(d *document.Decoder) *decoder {
	return &decoder{Decoder: d, limits: make(map[string]sluice.Limit), named: make(map[NamedFile]place), platforms: make(map[string][]string)}
}

type field = document.Field
