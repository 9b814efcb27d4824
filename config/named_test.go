// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"errors"
	"testing"

	"github.com/sluicegate/sluice/config"
)

// TestNamedFaults: a fault of a file has the place at which the configuration names the file.
// Without such a place it has the name of the file.
func TestNamedFaults(t *testing.T) {
	c, err := config.Parse("a.yaml", []byte("tokens: {hmac_file: secret}\nrules: [{name: a, by: ip, limits: 5/min}]\n"))
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[config.NamedFile]string{
		{Key: "hmac_file", Path: "secret"}: "a.yaml:1:21: gone",
		{Key: "hmac_file", Path: "other"}:  "a.yaml:1:1: hmac_file other: gone",
		{Key: "key", Path: "secret"}:       "a.yaml:1:1: key secret: gone",
	} {
		err := c.NamedFaults(map[config.NamedFile][]error{file: {errors.New("gone")}})
		if err == nil || err.Error() != want {
			t.Errorf("%v: got %v, want %q", file, err, want)
		}
	}
}
