// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package ratelimit

// Path returns the name of the statistics of a descriptor that has a limit: its domain, and for
// each entry the key and, where the file says so, the value or the pattern. A descriptor that
// brings its limit has the name that [Brought] returns.
func Path[E Entry](c *Config, domain string, entries []E, shared []string) string {
	plain, detailed := []byte(domain), []byte(domain)
	at := c.domains[domain]
	for i := range entries {
		key, value := entries[i].GetKey(), entries[i].GetValue()
		next, by := at.next(key, value)
		if next == nil {
			return string(plain)
		}
		kept := ""
		if shared != nil {
			kept = shared[i]
		}
		of := value
		switch {
		case kept != "":
			of = kept
		case by == byPattern && !next.valueToMetric:
			of = valueOf(next.key, key)
		case by == byKey && !next.valueToMetric:
			of = ""
		}
		plain = appendLevel(plain, key, of)
		switch {
		case kept != "":
			detailed = appendLevel(detailed, key, kept)
		case shared != nil:
			detailed = appendLevel(detailed, key, value)
		default: // with the underscore even if there is no value
			detailed = append(append(append(append(detailed, '.'), key...), '_'), value...)
		}
		at = next
	}
	if at != nil && at.detailed {
		return string(detailed)
	}
	return string(plain)
}

// Brought returns the name of the statistics of a descriptor that brings its limit.
func Brought[E Entry](domain string, entries []E) string {
	path := []byte(domain)
	for i := range entries {
		path = appendLevel(path, entries[i].GetKey(), entries[i].GetValue())
	}
	if len(entries) == 0 {
		path = append(path, '.')
	}
	return string(path)
}

func appendLevel(path []byte, key, value string) []byte {
	path = append(append(path, '.'), key...)
	if value != "" {
		path = append(append(path, '_'), value...)
	}
	return path
}
