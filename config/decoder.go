// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"sync"
	"time"

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

// Schema returns a JSON Schema (draft 2020-12) of the file for editors. It is derived from the
// code that reads the file, and has the keys and their types; only [Parse] checks the texts.
// The result must not be changed.
func Schema() []byte { return schema() }

var schema = sync.OnceValue(func() []byte { return document.Schema("sluice's configuration", readFile) })

// SchemaPage returns the keys of the file as tables in Markdown: docs/configuration-keys.md.
func SchemaPage() string {
	return document.Page("# The keys of the configuration\n\nWritten by `sluice schema --markdown`. [configuration.md](configuration.md) explains them with examples.\n", readFile)
}

func readFile(d *document.Decoder, root *yaml.Node) { newDecoder(d).config(root, new(Config)) }

// Bounds of a file. A test compares those that other packages enforce, too.
const (
	maxHops     = 16          // of client_ip
	maxLeaseTTL = time.Minute // of leased units
	maxLevels   = 8           // of a rule, and candidates of a level
	maxNodes    = 1 << 16     // among which a limit is shared
	maxRules    = 100_000
	maxSlots    = 1 << 16 // the largest cap of requests in flight

	defaultQueue = 10_000 // requests delayed at once
)

// Values of policy.Part.Source.
const (
	sourceIP          = "ip"
	sourceHost        = "host"
	sourceDescriptor  = "descriptor"
	sourceClaim       = "claim"
	sourceCertificate = "cert"
	sourceFirst       = "first"
)
