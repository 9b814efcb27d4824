// SPDX-FileCopyrightText: The sluice authors
// SPDX-License-Identifier: Apache-2.0

package redisstore

import (
	"testing"
	"time"

	"github.com/sluicegate/sluice/internal/redistest"
	"github.com/sluicegate/sluice/profile"
)

// TestConformanceWithPlatforms plays what platforms document of their own limits
// on real servers, by a clock that is set.
func TestConformanceWithPlatforms(t *testing.T) {
	for _, b := range redistest.Binaries(t) {
		server := redistest.Start(t, b)
		for _, p := range profile.All() {
			for _, v := range p.Vectors {
				t.Run(b.Name+"/"+p.Name+"/"+v.Name, func(t *testing.T) {
					s := clocked(t, server, v.Name)
					if err := v.Play(t.Context(), s, func(now time.Time) { s.Set(now.UnixMicro()) }); err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}
