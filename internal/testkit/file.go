// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// ReadFile returns the content of a file.
func ReadFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// WriteFile writes a file that only its owner may read.
func WriteFile[T string | []byte](t testing.TB, name string, text T) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TempFile writes a file into a folder that is removed after the test, and returns its name.
func TempFile[T string | []byte](t testing.TB, name string, text T) string {
	t.Helper()
	name = filepath.Join(t.TempDir(), name)
	WriteFile(t, name, text)
	return name
}

// JSON returns a value as JSON.
func JSON(t testing.TB, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
