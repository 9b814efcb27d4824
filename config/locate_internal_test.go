// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/sluicegate/sluice/policy"
)

// TestFieldsHaveKeys: locate finds the key of each field in which a policy finds faults.
func TestFieldsHaveKeys(t *testing.T) {
	keyless := " Shadow Levels Unlimited ExemptNetworks ExemptKeys " // mode, levels or none, none, exempt, exempt
	checked := 0
	for _, of := range []reflect.Type{
		reflect.TypeFor[policy.Rule](), reflect.TypeFor[policy.Match](), reflect.TypeFor[policy.Level](), reflect.TypeFor[policy.Tiers](),
		reflect.TypeFor[policy.Override](), reflect.TypeFor[policy.Candidate](), reflect.TypeFor[policy.Answer](),
	} {
		for f := range of.Fields() {
			if strings.Contains(keyless, " "+f.Name+" ") {
				continue
			}
			if checked++; !bytes.Contains(Schema(), []byte(`"`+keyOf(f.Name)+`": {`)) && f.Name != "Name" {
				t.Errorf("%v.%s: the file has no key %s", of, f.Name, keyOf(f.Name))
			}
		}
	}
	if checked < 40 {
		t.Errorf("%d fields", checked)
	}
}
