// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"sync"

	"go.yaml.in/yaml/v4"

	"github.com/sluicegate/sluice/config/internal/document"
)

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
